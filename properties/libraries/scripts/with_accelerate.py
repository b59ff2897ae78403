"""accelerate: PartialState, gather, reduce, broadcast_object_list, split_between_processes."""

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather, gather_object, reduce

state = PartialState(cpu=True)
rank = state.process_index
print(rank, state.num_processes, state.distributed_type)
print(rank, gather(torch.tensor([rank, rank + 1])).tolist(), gather_object([f"rank {rank}"]))
print(
    rank, reduce({"loss": torch.tensor(1.0 + rank)}, "mean"), broadcast_object_list([{"of": rank}])
)
with state.split_between_processes(list(range(5))) as mine:
    print(rank, mine)
state.wait_for_everyone()
state.destroy_process_group()
