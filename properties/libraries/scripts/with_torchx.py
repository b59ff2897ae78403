"""torchx: init_pg, on_rank0_first."""

from torchx.distributed import init_pg, is_rank0, local_rank, on_rank0_first, rank, world_size

init_pg("gloo")
with on_rank0_first():
    print(rank(), local_rank(), world_size(), is_rank0())
