"""A server with one thread for calls, asked for the methods of what it has yet to create."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


class Scale:
    def __init__(self, k):
        self.k = torch.tensor(float(k), requires_grad=True)

    def forward(self, x):
        return x * self.k

    def size(self):
        return self.k.item() + 1

    def broken(self):
        raise ValueError("broken")


def refuse():
    raise ValueError("no value")


def run(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29531")
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=1)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
    if rank == 0:
        for round in range(3):
            scales = [rpc.remote("w1", Scale, args=(i,)) for i in range(8)]
            x = torch.tensor([1.0, 2.0], requires_grad=True)
            with dist_autograd.context() as context_id:
                outs = [s.rpc_sync().forward(x) for s in reversed(scales)]
                loss = sum(out.sum() for out in outs)
                dist_autograd.backward(context_id, [loss])
                print(round, loss.item(), dist_autograd.get_gradients(context_id)[x].tolist())
        sizes = [
            s.rpc_async().size() for s in [rpc.remote("w1", Scale, args=(i,)) for i in range(8)]
        ]
        print([size.wait() for size in sizes])
        bad = rpc.remote("w1", refuse)
        for call in (bad.rpc_sync, bad.rpc_async):
            try:
                call().forward(1)
                print("no error yet")
            except Exception as error:
                print(type(error).__name__, "no value" in str(error))
        try:
            scales[0].rpc_sync().broken()
        except Exception as error:
            print(type(error).__name__, "broken" in str(error))
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2)
