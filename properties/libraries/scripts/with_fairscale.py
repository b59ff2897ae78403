"""fairscale: model-parallel layers with their backward passes, OSS."""

import os

import torch
import torch.distributed as dist
from fairscale.nn.model_parallel import destroy_model_parallel, initialize_model_parallel
from fairscale.nn.model_parallel.layers import ColumnParallelLinear, RowParallelLinear
from fairscale.optim import OSS

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo")
initialize_model_parallel(world)
torch.manual_seed(5)
first = ColumnParallelLinear(4, 4, gather_output=False)
second = RowParallelLinear(4, 2, input_is_parallel=True)
loss = second(first(torch.ones(3, 4)).relu()).square().sum()
loss.backward()
print(rank, loss.item(), first.weight.grad.sum().item(), second.weight.grad.sum().item())
weights = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))]
sharded = OSS(weights, optim=torch.optim.SGD, lr=0.5)
for weight in weights:
    weight.grad = torch.ones(2)
sharded.step()
print(rank, [weight.tolist() for weight in weights])
destroy_model_parallel()
dist.destroy_process_group()
