"""webdataset: split_by_node."""

import os

import torch.distributed as dist
import webdataset as wds
from webdataset.utils import pytorch_worker_info

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
print(rank, pytorch_worker_info())
print(rank, list(wds.split_by_node(iter(["a", "b", "c", "d", "e"]))))
dist.destroy_process_group()
