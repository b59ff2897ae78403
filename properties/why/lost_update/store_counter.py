# run: --workers 3
# engines: port torch
# shows: AssertionError: \d of 6 files counted
# fix: store.set("files", str(done + 1)) => store.add("files", 1)
"""Each rank converts its share of some files and counts them in the store of the group."""

import datetime
import os

import torch.distributed as dist

FILES = [f"part-{n}.bin" for n in range(6)]


def convert(name):
    return name.replace(".bin", ".pt")


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"],
        29533,
        size,
        is_master=rank == 0,
        timeout=datetime.timedelta(seconds=30),
    )
    if rank == 0:
        store.set("files", "0")
    store.wait(["files"])
    for name in FILES[rank::size]:
        convert(name)
        done = int(store.get("files"))  # <- first
        store.set("files", str(done + 1))  # <- second
    store.add("ready", 1)
    while store.add("ready", 0) < size:
        pass
    if rank == 0:
        counted = int(store.get("files"))
        assert counted == len(FILES), f"{counted} of {len(FILES)} files counted"
    store.add("left", 1)
    while rank == 0 and store.add("left", 0) < size:
        pass


if __name__ == "__main__":
    main()
