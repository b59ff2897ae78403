"""Remote references on the move: user to user, user to owner, and back in an answer.

Every worker is a learner whose weights live on the next worker. In each step it hands its
RRef to a third worker, which hands it on to the owner, which computes with the value and lets
the answer travel back the same way: one backward pass runs through nested calls, and the
contexts of all learners are open at the same time on the same workers.

    python examples/rref_sharing.py
"""

import argparse
import os
import socket

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import optim
from torch.distributed.optim import DistributedOptimizer

SAMPLES, FEATURES = 10, 5


def make_weight(seed):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(FEATURES, 1, generator=generator, dtype=torch.float64)
    return weight.requires_grad_()


def predict(weight_rref, inputs):
    """On the owner: compute with the value itself."""
    return inputs @ weight_rref.local_value()


def relay(weight_rref, inputs):
    """On a third worker: pass the reference on to its owner, and scale what comes back."""
    prediction = rpc.rpc_sync(weight_rref.owner(), predict, args=(weight_rref, inputs))
    return prediction * 0.5


def relay_later(weight_rref, inputs):
    """The same, but answer with a reference to a result that may not exist yet."""
    return rpc.remote(weight_rref.owner(), predict, args=(weight_rref, inputs))


class Learner:
    def __init__(self, rank, world_size):
        owner = f"worker{(rank + 1) % world_size}"
        self.third = f"worker{(rank + 2) % world_size}"
        self.weight_rref = rpc.remote(owner, make_weight, args=(rank,))
        self.optimizer = DistributedOptimizer(optim.SGD, [self.weight_rref], lr=0.2)
        generator = torch.Generator().manual_seed(100 + rank)
        self.inputs = torch.randn(SAMPLES, FEATURES, generator=generator, dtype=torch.float64)
        self.targets = self.inputs.sum(dim=1, keepdim=True)

    def step(self):
        with dist_autograd.context() as context_id:
            args = (self.weight_rref, self.inputs)
            half = rpc.rpc_async(self.third, relay, args=args)
            later = rpc.rpc_sync(self.third, relay_later, args=args)
            prediction = half.wait() + 0.5 * later.to_here()
            loss = (prediction - self.targets).square().mean()
            dist_autograd.backward(context_id, [loss])
            self.optimizer.step(context_id)
        return loss.item()


def run(rank, world_size, steps):
    torch.set_num_threads(1)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        learners = [
            rpc.remote(f"worker{other}", Learner, args=(other, world_size))
            for other in range(world_size)
        ]
        for step in range(1, steps + 1):
            futures = [learner.rpc_async().step() for learner in learners]
            losses = torch.futures.wait_all(futures)
            print(f"step {step}  loss {sum(losses) / world_size:.6f}", flush=True)
    rpc.shutdown()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world-size", type=int, default=int(os.environ.get("WORLD_SIZE", 4)))
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()
    if args.world_size < 1:
        parser.error("a world size is at least 1")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(free_port()))
    mp.spawn(run, args=(args.world_size, args.steps), nprocs=args.world_size)


if __name__ == "__main__":
    main()
