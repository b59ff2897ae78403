# run: --workers 2 --seeds 40
# engines: port
# shows: TypeError: 'NoneType' object is not callable
# fix: store.set("ready", "1")\n        MODEL = torch.nn.Linear(4, 1)  # <- at fault => MODEL = torch.nn.Linear(4, 1)\n        store.set("ready", "1")
"""A server says in the store that its model is there; a client waits for that, and reads its data first."""

import os
import time

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc

MODEL = None


def predict(batch):
    return MODEL(batch)


def main():
    global MODEL
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    port = int(os.environ["MASTER_PORT"]) + 1
    store = dist.TCPStore(os.environ["MASTER_ADDR"], port, size, is_master=rank == 0)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
    if rank == 0:
        store.set("ready", "1")
        MODEL = torch.nn.Linear(4, 1)  # <- at fault
    else:
        store.wait(["ready"])
        time.sleep(0.02)
        rpc.rpc_sync("worker0", predict, args=(torch.ones(2, 4),))
    rpc.shutdown()


if __name__ == "__main__":
    main()
