"""Which tensors may be roots of a pass: no leaf, nothing without gradient, no vector."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def run(rank):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        leaf = torch.ones((), requires_grad=True)
        for root in (leaf, leaf.detach(), leaf.expand(2), leaf * 1):
            with dist_autograd.context() as context:
                try:
                    dist_autograd.backward(context, [root])
                    print("w0:", dist_autograd.get_gradients(context)[leaf].item(), flush=True)
                except RuntimeError as error:
                    print("w0:", str(error).splitlines()[0], flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
