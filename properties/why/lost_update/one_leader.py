# run: --workers 3
# engines: port
# shows: AssertionError: \d leaders
# fix: is_leader = not store.check(["leader"]) => is_leader = store.add("leader", 1) == 1
# fix: store.set("leader", str(rank))  # <- second => pass
"""The first rank that comes is the leader, and says so in the store of the group."""

import os
import time

import torch
import torch.distributed as dist


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    port = int(os.environ["MASTER_PORT"]) + 1
    store = dist.TCPStore(os.environ["MASTER_ADDR"], port, size, is_master=rank == 0)
    dist.init_process_group(
        "gloo", store=dist.PrefixStore("group", store), rank=rank, world_size=size
    )
    time.sleep(0.05 * rank)
    is_leader = not store.check(["leader"])  # <- first
    if is_leader:
        store.set("leader", str(rank))  # <- second
    leaders = torch.tensor([int(is_leader)])
    dist.all_reduce(leaders)
    assert leaders.item() == 1, f"{leaders.item()} leaders"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
