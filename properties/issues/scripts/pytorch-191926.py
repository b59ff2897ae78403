# pytorch/pytorch#191926, 2 ranks
# The gradient of an input of Conv2d that is sharded by width is placed as if it were sharded by batch
# Expected: the placement of the input, and the gradient of one process
import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_module, distribute_tensor, init_device_mesh

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
layer = torch.nn.Conv2d(3, 4, kernel_size=4, stride=4)
x = torch.arange(2 * 3 * 8 * 8.0).reshape(2, 3, 8, 8).requires_grad_()
layer(x).square().sum().backward()
model = distribute_module(layer, mesh)
shards = distribute_tensor(x.detach(), mesh, [Shard(3)]).requires_grad_()
model(shards).square().sum().backward()
placed = shards.grad.placements
is_right = placed == (Shard(3),) and shards.grad.full_tensor().allclose(x.grad, rtol=1e-3)
if dist.get_rank() == 0:
    print("OK" if is_right else "BUG", f"the gradient is placed as {placed[0]}", flush=True)
