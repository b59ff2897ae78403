import os
import tempfile

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


class Settings:
    rate = 1

    def now(self):
        return self.rate


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        settings = rpc.remote("w1", Settings)
        settings.rpc_sync().__setattr__("rate", 7)
        rate = settings.rpc_sync().now()
        report(rate != 7, f"rate is {rate} after __setattr__('rate', 7)")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
