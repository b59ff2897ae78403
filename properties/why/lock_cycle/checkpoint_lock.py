# run: --workers 3
# engines: port torch
# shows: RPC ran for more than set timeout
# always: yes
# fix: dist.barrier() => pass
"""Ranks write a checkpoint one after the other, holding a lock of rank 0, and meet before they release it."""

import os
import threading

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc

disk = threading.Lock()
saved = []


def lock_disk():
    disk.acquire()  # <- first


def unlock_disk():
    disk.release()


def write_shard(rank, step):
    saved.append((step, rank))


def save(rank, step):
    rpc.rpc_sync("trainer0", lock_disk)  # <- first
    rpc.rpc_sync("trainer0", write_shard, args=(rank, step))
    dist.barrier()  # <- second
    rpc.rpc_sync("trainer0", unlock_disk)


def train(rank):
    weight = torch.full((2,), float(rank))
    for step in range(2):
        dist.all_reduce(weight)
        if step == 1:
            save(rank, step)


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    rpc.init_rpc(f"trainer{rank}", rank=rank, world_size=world)
    train(rank)
    rpc.shutdown()
    if rank == 0:
        assert len(saved) == world
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
