# pytorch/pytorch#170277, 2 ranks
# An operator with two outputs in a stage: its gradients are summed into that of the first where a schedule splits passes
# Expected: the gradients of one process
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble


class Chunks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.v = (torch.nn.Parameter(torch.eye(4) * k) for k in (2.0, 3.0))

    def forward(self, x):
        left, right = (x @ self.v).chunk(2, 1)
        return torch.cat([left * self.w[:2, 0].sum(), right * right * self.w[0, :2].sum()], 1)


dist.init_process_group("gloo")
rank = dist.get_rank()
x, loss = torch.arange(16.0).reshape(4, 4) / 16, lambda out, _: out.sum()
whole = torch.nn.Sequential(*(Chunks() for _ in range(4)))
whole(x).sum().backward()
mine = [Chunks(), Chunks()]
stages = [PipelineStage(m, rank + 2 * i, 4, torch.device("cpu")) for i, m in enumerate(mine)]
schedule = ScheduleInterleavedZeroBubble(stages, 4, loss_fn=loss, scale_grads=False)
schedule.step(*((x,) if rank == 0 else ()), target=x)
wrong = []
for i, module in enumerate(mine):
    pairs = zip(module.parameters(), whole[rank + 2 * i].parameters(), strict=True)
    wrong += [rank + 2 * i] * any(not a.grad.allclose(b.grad) for a, b in pairs)
wrong = torch.tensor(len(wrong))
dist.all_reduce(wrong)
if rank == 0:
    print("BUG" if wrong else "OK", f"wrong gradients in {wrong} of 4 stages", flush=True)
