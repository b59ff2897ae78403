# run: --workers 3
# engines: port torch
# shows: AssertionError: read .*, wrote
# fix: read_from = "backup" => read_from = "primary"
"""A key-value store with a primary, which answers before its backup has the value, and a backup."""

import os
import random

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

table = {}


def replicate(key, value):
    table[key] = value


def put(key, value):
    table[key] = value
    rpc.rpc_async("backup", replicate, args=(key, value))  # <- first


def get(key):
    return table.get(key)


def client(seed):
    random.seed(seed)
    read_from = "backup"
    for _ in range(3):
        key, value = random.choice("abc"), random.randrange(1000)
        rpc.rpc_sync("primary", put, args=(key, value))
        found = rpc.rpc_sync(read_from, get, args=(key,))  # <- second
        assert found == value, f"read {key}={found}, wrote {value}"


def start(rank):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29611"
    name = ("primary", "backup", "client")[rank]
    rpc.init_rpc(name, rank=rank, world_size=3)
    if name == "client":
        client(seed=4)
    rpc.shutdown()


if __name__ == "__main__":
    processes = [mp.Process(target=start, args=(rank,)) for rank in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert all(process.exitcode == 0 for process in processes)
