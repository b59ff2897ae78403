# run: --workers 3
# engines: port torch
# shows: AssertionError: frame \d holds
# fix: slot = n % len(buffers) => slot = n % len(buffers)\n        [each.wait() for each in shown]
"""A camera writes frames into two buffers in turn; a viewer fetches each from the buffer it is told."""

import os

import torch
import torch.distributed.rpc as rpc

buffers = [torch.zeros(4), torch.zeros(4)]


def fetch(slot):
    return buffers[slot].clone()  # <- first


def write(slot, n):
    buffers[slot].fill_(n)  # <- second


def show(n, slot):
    frame = rpc.rpc_sync("memory", fetch, args=(slot,))
    assert (frame == n).all(), f"frame {n} holds {frame[0].item():g}"
    return n


def record(frames):
    shown = []
    for n in range(frames):
        slot = n % len(buffers)
        rpc.rpc_sync("memory", write, args=(slot, n))
        shown.append(rpc.rpc_async("viewer", show, args=(n, slot)))
    for each in shown:
        each.wait()


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    rpc.init_rpc(["camera", "memory", "viewer"][rank], rank=rank, world_size=3)
    if rank == 0:
        record(6)
    rpc.shutdown()
