"""torchpippy: two stages of a pipeline."""

import os

import torch
import torch.distributed as dist
from pippy.IR import Pipe, PipeSplitWrapper, annotate_split_points
from pippy.PipelineStage import PipelineStage

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.b(self.a(x).relu())


torch.manual_seed(0)
net = Net()
annotate_split_points(net, {"b": PipeSplitWrapper.SplitPoint.BEGINNING})
pipe = Pipe.from_tracing(net, 2, example_args=(torch.ones(4, 4),))
stage = PipelineStage(pipe, rank, device=torch.device("cpu"))
out = stage(torch.ones(4, 4)) if rank == 0 else stage()
print(rank, None if out is None else out.tolist())
dist.destroy_process_group()
