# run: --workers 2
# engines: port torch
# shows: Could not find autograd context|KeyError
# fix: rpc_async().step => rpc_sync().step
# fix: [future.wait() for future in pending] => pending
"""The trainer tells the owner of the weights to step, and leaves the context before that has looked into it."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn


class Owner:
    def __init__(self):
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 1, bias=False)
        self.steps = 0

    def forward(self, x):
        return self.layer(x)

    def step(self, context_id):
        grads = dist_autograd.get_gradients(context_id)  # <- second
        with torch.no_grad():
            for parameter in self.layer.parameters():
                parameter -= 0.1 * grads[parameter]
        self.steps += 1
        return self.steps


def train(owner):
    pending = []
    for batch in range(3):
        with dist_autograd.context() as context_id:  # <- second
            x = torch.ones(2, 3) * batch
            loss = owner.rpc_sync().forward(x).pow(2).sum()
            dist_autograd.backward(context_id, [loss])
            pending.append(owner.rpc_async().step(context_id))  # <- first
    return [future.wait() for future in pending]


def main():
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    if rank == 0:
        steps = train(rpc.remote("w1", Owner))
        assert sorted(steps) == [1, 2, 3], steps
    rpc.shutdown()


if __name__ == "__main__":
    main()
