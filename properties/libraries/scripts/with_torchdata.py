"""torchdata: StatefulDataLoader with a StatefulDistributedSampler, state saved and loaded."""

import os

import torch
import torch.distributed as dist
from torch.utils.data import Dataset
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler


class Numbers(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        return torch.tensor(float(i))


rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
data = Numbers()
loader = StatefulDataLoader(data, batch_size=2, sampler=StatefulDistributedSampler(data))
seen = []
for step, batch in enumerate(loader):
    total = batch.sum()
    dist.all_reduce(total)
    seen.append(total.item())
    if step == 1:
        state = loader.state_dict()
        break
loader.load_state_dict(state)
print(rank, seen, [batch.tolist() for batch in loader])
dist.destroy_process_group()
