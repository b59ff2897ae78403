"""A parameter server and its trainers.

Worker 0 keeps the shared layer of a model. Every other worker is a trainer: it has a head and
data of its own, sends its batch through the shared layer, and trains both together with
distributed autograd and a DistributedOptimizer.

All trainers run forward and backward at the same time, each in a context of its own. They
update the shared layer one after the other, in order of rank, so that the losses do not depend
on which message happens to arrive first.

    python examples/parameter_server.py
"""

import argparse
import os
import socket
import threading

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn, optim
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef

BATCH, FEATURES, HIDDEN = 16, 8, 12


class ParameterServer(nn.Module):
    """The shared layer, and the place where trainers meet."""

    def __init__(self, trainers):
        super().__init__()
        torch.manual_seed(0)
        self.shared = nn.Linear(FEATURES, HIDDEN).double()
        self.trainers = trainers
        self.lock = threading.Lock()
        self.arrived = {}
        self.all_here = torch.futures.Future()

    def forward(self, batch):
        return torch.tanh(self.shared(batch))

    def parameter_rrefs(self):
        return [RRef(parameter) for parameter in self.parameters()]

    @staticmethod
    @rpc.functions.async_execution
    def meet(ps_rref, rank, value):
        """Answer every trainer, once all are here, with what each one brought."""
        self = ps_rref.local_value()
        with self.lock:
            self.arrived[rank] = value
            everybody = self.all_here
            complete = len(self.arrived) == self.trainers
            if complete:
                values = [self.arrived[rank] for rank in sorted(self.arrived)]
                self.arrived, self.all_here = {}, torch.futures.Future()
        if complete:
            everybody.set_result(values)
        return everybody


class Trainer:
    def __init__(self, rank, world_size, ps_rref):
        self.rank, self.world_size, self.ps_rref = rank, world_size, ps_rref
        generator = torch.Generator().manual_seed(rank)
        self.inputs = torch.randn(BATCH, FEATURES, generator=generator, dtype=torch.float64)
        self.targets = self.inputs.cos().sum(dim=1, keepdim=True)
        torch.manual_seed(rank)
        self.head = nn.Linear(HIDDEN, 1).double()
        shared = ps_rref.rpc_sync().parameter_rrefs()
        self.shared_optimizer = DistributedOptimizer(optim.SGD, shared, lr=0.02)
        local = [RRef(parameter) for parameter in self.head.parameters()]
        self.head_optimizer = DistributedOptimizer(optim.SGD, local, lr=0.02)

    def meet(self, value=None):
        return rpc.rpc_sync(
            self.ps_rref.owner(), ParameterServer.meet, args=(self.ps_rref, self.rank, value)
        )

    def step(self):
        """One step of all trainers; returns the mean of their losses."""
        with dist_autograd.context() as context_id:
            hidden = self.ps_rref.rpc_sync().forward(self.inputs)
            loss = nn.functional.mse_loss(self.head(hidden), self.targets)
            dist_autograd.backward(context_id, [loss])
            losses = self.meet(loss.item())
            self.head_optimizer.step(context_id)
            for turn in range(1, self.world_size):
                if turn == self.rank:
                    self.shared_optimizer.step(context_id)
                self.meet()
        return sum(losses) / len(losses)


def train(rank, world_size, steps, ps_rref):
    trainer = Trainer(rank, world_size, ps_rref)
    for step in range(1, steps + 1):
        loss = trainer.step()
        if rank == 1:
            print(f"step {step}  loss {loss:.6f}", flush=True)


def run(rank, world_size, steps):
    torch.set_num_threads(1)
    name = "ps" if rank == 0 else f"trainer{rank}"
    rpc.init_rpc(name, rank=rank, world_size=world_size)
    if rank == 0:
        ps_rref = RRef(ParameterServer(trainers=world_size - 1))
        futures = [
            rpc.rpc_async(f"trainer{other}", train, args=(other, world_size, steps, ps_rref))
            for other in range(1, world_size)
        ]
        torch.futures.wait_all(futures)
    rpc.shutdown()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world-size", type=int, default=int(os.environ.get("WORLD_SIZE", 4)))
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    if args.world_size < 2:
        parser.error("a parameter server and a trainer make a world size of at least 2")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(free_port()))
    mp.spawn(run, args=(args.world_size, args.steps), nprocs=args.world_size)


if __name__ == "__main__":
    main()
