# run: --workers 3
# engines: port torch
# shows: AttributeError: 'NoneType' object has no attribute 'gradient'
# fix: rpc.init_rpc("ps", rank=0, world_size=size)\n        load_and_start() => load_and_start()\n        rpc.init_rpc("ps", rank=0, world_size=size)
"""A parameter server that loads its checkpoint, and trainers that send gradients."""

import argparse
import os
import time

import torch
import torch.distributed.rpc as rpc


class Server:
    def __init__(self, weight):
        self.weight = weight
        self.updates = 0

    def gradient(self, gradient):
        self.weight -= 0.1 * gradient
        self.updates += 1
        return self.weight


server = None


def load_and_start():
    global server
    time.sleep(0.001)  # the checkpoint comes from a disk
    server = Server(torch.zeros(3))  # <- first


def send(gradient):
    return server.gradient(gradient)  # <- second


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=int(os.environ.get("RANK", 0)))
    parser.add_argument("--world-size", type=int, default=int(os.environ.get("WORLD_SIZE", 3)))
    options = parser.parse_args()
    rank, size = options.rank, options.world_size
    if rank == 0:
        rpc.init_rpc("ps", rank=0, world_size=size)
        load_and_start()
    else:
        rpc.init_rpc(f"trainer{rank}", rank=rank, world_size=size)
        for step in range(2):
            weight = rpc.rpc_sync("ps", send, args=(torch.full((3,), float(step)),))
    rpc.shutdown()
