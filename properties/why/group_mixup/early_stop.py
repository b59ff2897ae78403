# run: --workers 3
# engines: port torch
# shows: Connection closed by peer
# fix: store.set("stop", "1")  # <- first => store.set("stop", str(step + 2))
# fix: store.check(["stop"]):  # <- second => store.check(["stop"]) and int(store.get("stop")) == step:
"""Ranks train until rank 0 says in the store that it is enough; all look there before each step."""

import torch
import torch.distributed as dist

STEPS = 6
ENOUGH = 3


def gradient(loss):
    return loss / 4


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    store = dist.TCPStore("localhost", 29577, size, is_master=rank == 0)
    loss = torch.tensor([8.0])
    for step in range(STEPS):
        if store.check(["stop"]):  # <- second
            break
        grad = gradient(loss)
        dist.all_reduce(grad)
        loss -= grad / size
        if rank == 0 and step == ENOUGH:
            store.set("stop", "1")  # <- first
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
