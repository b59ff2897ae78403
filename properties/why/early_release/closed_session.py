# run: --workers 3
# engines: port torch
# shows: KeyError: 7
# fix: reader = rpc.rpc_async("worker2", read_all, args=(7,)) => reader = rpc.rpc_async("worker2", read_all, args=(7,))\n    reader.wait()
"""Sessions of a server are opened, read by whoever knows their number, and closed."""

import os

import torch
import torch.distributed.rpc as rpc

sessions = {}


def open_session(number):
    sessions[number] = torch.arange(float(number))


def close_session(number):
    del sessions[number]  # <- first


def read(number, index):
    return sessions[number][index].item()  # <- second


def read_all(number):
    return [rpc.rpc_sync("server", read, args=(number, index)) for index in range(3)]


def drive():
    rpc.rpc_sync("server", open_session, args=(7,))
    reader = rpc.rpc_async("worker2", read_all, args=(7,))
    rpc.rpc_sync("server", close_session, args=(7,))
    print(reader.wait())


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    name = ("server", "worker1", "worker2")[rank]
    rpc.init_rpc(name, rank=rank, world_size=3)
    if rank == 1:
        drive()
    rpc.shutdown()
