import os
import tempfile

import torch.distributed.rpc as rpc
from torch.distributed.rpc import backend_registry

if __name__ == "__main__":
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mktemp()}")
    backend_registry.register_backend("MINE", lambda *_, **__: None, lambda *_, **__: None)
    try:
        rpc.init_rpc(
            "w0",
            backend=rpc.BackendType.TENSORPIPE,
            rank=0,
            world_size=1,
            rpc_backend_options=options,
        )
    except TypeError as error:
        print("BUG backend=rpc.BackendType.TENSORPIPE:", error, flush=True)
        os._exit(0)
    rpc.shutdown()
    print("OK", rpc.BackendType.TENSORPIPE, "is taken; MINE" in dir(rpc.BackendType), flush=True)
