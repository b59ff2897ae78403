"""transformers: TrainingArguments, distributed_concat, main_process_first."""

import os

import torch
import torch.distributed as dist
from transformers import TrainingArguments
from transformers.trainer_pt_utils import distributed_concat

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
args = TrainingArguments(output_dir="out", use_cpu=True, ddp_backend="gloo", report_to=[])
print(rank, args.world_size, args.process_index, args.parallel_mode)
print(rank, distributed_concat({"a": torch.tensor([rank + 1.0])}))
with args.main_process_first():
    print(rank, "after main")
dist.destroy_process_group()
