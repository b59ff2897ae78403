# pytorch/pytorch#196996, 2 ranks
# FSDP2: a parameter that is first used in the last microbatch has its gradient in another dtype than the others
# Expected: all gradients are reduced in float32
import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x, both):
        return self.a(x) + self.b(x) if both else self.a(x)


dist.init_process_group("gloo")
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
model = fully_shard(Model(), mp_policy=policy)
said = "OK two microbatches"
try:
    for last in (False, True):
        model.set_requires_gradient_sync(last)
        model(torch.ones(2, 4), last).sum().backward()
except AssertionError as error:
    said = f"BUG {str(error).partition(' {')[0]}"
if dist.get_rank() == 0:
    print(said, flush=True)
