"""Nothing sets a seed: every process draws numbers of its own."""

import os
import random
import secrets
import sys
import threading
import uuid

import numpy
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

WORKERS = 3
AT_IMPORT = (torch.rand(1).item(), random.random(), float(numpy.random.rand()))
WEIGHT = torch.randn(4, 4, requires_grad=True)


def noisy(x):
    factor = torch.randn(4)
    return torch.nn.functional.dropout(x @ WEIGHT, 0.5) * factor * random.random()


def draws():
    generators = random.Random(), numpy.random.default_rng(), numpy.random.RandomState()
    return [
        *AT_IMPORT,
        torch.rand(1).item(),
        random.random(),
        float(numpy.random.rand()),
        *(float(each.random()) for each in generators[:2]),
        float(generators[2].rand()),
        random.SystemRandom().random(),
        secrets.token_hex(4),
        str(uuid.uuid4()),
        os.urandom(4).hex(),
        WEIGHT.sum().item(),
        torch.initial_seed(),
    ]


def run(rank):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=WORKERS)
    if rank == 0:
        found = [draws(), *(rpc.rpc_sync(to, draws) for to in (1, 2))]
        if "show" in sys.argv:
            for each in found:
                print(each)
        print("differ", all(len({str(one[n]) for one in found}) == WORKERS for n in range(15)))
        for _ in range(4):
            with dist_autograd.context() as context:
                x = torch.randn(4, 4, requires_grad=True)
                later = []
                for to in (1, 2):
                    later.append(rpc.rpc_async(to, noisy, args=(x,)))
                mine = []
                thread = threading.Thread(target=lambda x=x, mine=mine: mine.append(noisy(x)))
                thread.start()
                thread.join()
                loss = mine[0].sum() + sum(each.wait().sum() for each in later)
                dist_autograd.backward(context, [loss])
                grads = dist_autograd.get_gradients(context)
                print(len(grads), bool(grads[x].abs().sum() > 0))
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(), nprocs=WORKERS)
