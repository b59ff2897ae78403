import os
import tempfile

import torch.distributed.rpc as rpc

if __name__ == "__main__":
    said = []
    for rank in (40000, 0):
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mktemp()}")
        try:
            rpc.init_rpc("w0", rank=rank, rpc_backend_options=options)
            said.append("is taken")
        except Exception as error:
            said.append(f"{type(error).__name__}: {str(error)[:72]}")
    bad = "-25536" in said[1]
    print("BUG" if bad else "OK", f"rank 40000: {said[0][:30]}; then rank 0: {said[1]}", flush=True)
    os._exit(0)
