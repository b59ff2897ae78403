"""A model split over three workers, fed with micro-batches.

Worker 0 drives. The three stages of the model live on the other workers and are known to the
driver as RRefs; the output of a stage stays where it was computed and travels on as an RRef,
so that the driver hands out micro-batches without waiting for any of them.

Gradients of the micro-batches add up in the order in which they happen to arrive; in float64
that changes nothing before the fifteenth digit.

    python examples/pipeline.py
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

BATCH, MICRO_BATCHES = 24, 4
WIDTHS = [6, 16, 16, 1]


class Stage(nn.Module):
    """One part of the model, on the worker that owns it."""

    def __init__(self, index):
        super().__init__()
        torch.manual_seed(index)
        self.lock = threading.Lock()
        self.linear = nn.Linear(WIDTHS[index], WIDTHS[index + 1]).double()
        self.last = index + 2 == len(WIDTHS)

    def forward(self, input_rref):
        batch = input_rref.to_here()
        with self.lock:
            output = self.linear(batch)
            return output if self.last else torch.tanh(output)

    def parameter_rrefs(self):
        return [RRef(parameter) for parameter in self.parameters()]


class Pipeline(nn.Module):
    """The whole model, as the driver sees it."""

    def __init__(self, workers):
        super().__init__()
        self.stages = [
            rpc.remote(workers[index % len(workers)], Stage, args=(index,))
            for index in range(len(WIDTHS) - 1)
        ]

    def forward(self, batch):
        outputs = []
        for micro_batch in batch.chunk(MICRO_BATCHES):
            rref = RRef(micro_batch)
            for stage in self.stages[:-1]:
                rref = stage.remote().forward(rref)
            outputs.append(self.stages[-1].rpc_async().forward(rref))
        return torch.cat(torch.futures.wait_all(outputs))

    def parameter_rrefs(self):
        return [rref for stage in self.stages for rref in stage.rpc_sync().parameter_rrefs()]


def train(world_size, steps):
    model = Pipeline([f"worker{rank}" for rank in range(1, world_size)])
    optimizer = DistributedOptimizer(optim.SGD, model.parameter_rrefs(), lr=0.05)
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(BATCH, WIDTHS[0], generator=generator, dtype=torch.float64)
    targets = inputs.sin().sum(dim=1, keepdim=True)
    for step in range(1, steps + 1):
        with dist_autograd.context() as context_id:
            loss = nn.functional.mse_loss(model(inputs), targets)
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)
        print(f"step {step}  loss {loss.item():.6f}", flush=True)


def run(rank, world_size, steps):
    torch.set_num_threads(1)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        train(world_size, steps)
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
    if args.world_size < 2:
        parser.error("a driver and a worker make a world size of at least 2")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(free_port()))
    mp.spawn(run, args=(args.world_size, args.steps), nprocs=args.world_size)


if __name__ == "__main__":
    main()
