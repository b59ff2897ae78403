# run: --workers 2
# engines: port torch
# shows: (?i)timed out
# always: yes
# fix: tag = GRADIENT => tag = ACTIVATION
"""Two stages of a pipeline send each other activations and gradients, told apart by tags."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

ACTIVATION, GRADIENT = 1, 2


def first_stage(steps):
    for step in range(steps):
        x = torch.full((2, 2), float(step + 1), requires_grad=True)
        y = 2 * x
        dist.send(y.detach(), dst=1, tag=ACTIVATION)
        gradient = torch.empty(2, 2)
        dist.recv(gradient, src=1, tag=GRADIENT)
        y.backward(gradient)
        assert x.grad.eq(2 * 4 * (step + 1)).all(), x.grad


def second_stage(steps):
    for step in range(steps):
        y = torch.empty(2, 2)
        tag = GRADIENT  # <- at fault
        dist.recv(y, src=0, tag=tag)
        y.requires_grad_()
        y.square().sum().backward()
        dist.send(y.grad, dst=0, tag=GRADIENT)


def main(rank):
    url = "tcp://localhost:29582"
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=2)
    (first_stage if rank == 0 else second_stage)(2)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
