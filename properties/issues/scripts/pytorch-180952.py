# pytorch/pytorch#180952, 2 ranks
# A weight that a stage uses twice, one after the other, is counted twice where a schedule splits backward passes
# Expected: the gradients of one process
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([[0.4, -0.2], [0.7, 0.3]]))

    def forward(self, x):
        return x @ self.w @ self.w


dist.init_process_group("gloo")
rank = dist.get_rank()
x, loss = torch.tensor([[1.1, -0.7]]).repeat(4, 1), lambda out, _: out.sum()
whole = torch.nn.Sequential(*(Twice() for _ in range(4)))
whole(x).sum().backward()
mine = [Twice(), Twice()]
stages = [PipelineStage(m, rank + 2 * i, 4, torch.device("cpu")) for i, m in enumerate(mine)]
schedule = ScheduleInterleavedZeroBubble(stages, 4, loss_fn=loss, scale_grads=False)
schedule.step(*((x,) if rank == 0 else ()), target=x)
wrong = [
    rank + 2 * i for i, m in enumerate(mine) if not m.w.grad.allclose(whole[rank + 2 * i].w.grad)
]
wrong = torch.tensor(len(wrong))
dist.all_reduce(wrong)
if rank == 0:
    print("BUG" if wrong else "OK", f"wrong gradients in {wrong} of 4 stages", flush=True)
