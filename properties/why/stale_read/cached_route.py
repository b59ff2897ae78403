# run: --workers 4
# engines: port torch
# shows: (KeyError|AssertionError): .*shard
# fix: rpc.rpc_async(f"client{n}", moved, args=(key, to)) => rpc.rpc_sync(f"client{n}", moved, args=(key, to))
"""Clients remember which shard holds a key; whoever moves a key tells all clients so."""

import os
import threading

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

tables = {}
routes = {"embedding": "shard0"}
lock = threading.Lock()


def take(key):
    with lock:
        return tables.pop(key)


def give(key, value):
    with lock:
        tables[key] = value


def look_up(key, index):
    with lock:
        assert key in tables, f"{key} is not on this shard"
        return tables[key][index]


def moved(key, to):
    routes[key] = to  # <- first


def move(key, to):
    value = rpc.rpc_sync(routes[key], take, args=(key,))
    rpc.rpc_sync(to, give, args=(key, value))
    for n in (2, 3):
        rpc.rpc_async(f"client{n}", moved, args=(key, to))


def client(rank):
    if rank == 2:
        move("embedding", "shard1")
        rpc.rpc_sync("client3", use)


def use():
    return rpc.rpc_sync(routes["embedding"], look_up, args=("embedding", 1))  # <- second


def run(rank):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29612"
    if rank == 0:
        tables["embedding"] = torch.arange(4.0)
    rpc.init_rpc(f"shard{rank}" if rank < 2 else f"client{rank}", rank=rank, world_size=4)
    client(rank)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=4)
