# run: --workers 2
# engines: port
# shows: AssertionError: \d losses after step \d
# fix: future.add_done_callback(record) => future = future.then(record)
"""A trainer keeps the losses of remote steps by a callback."""

import os

import torch
import torch.distributed.rpc as rpc

history = []


def remote_step(x):
    return float((x * x).sum())


def record(future):
    history.append(future.value())  # <- second


def train():
    for step in range(3):
        future = rpc.rpc_async("stepper", remote_step, args=(torch.full((2,), float(step)),))
        future.add_done_callback(record)
        future.wait()
        losses = len(history)  # <- first
        assert losses == step + 1, f"{losses} losses after step {step}"


def main():
    rank = int(os.environ["RANK"])
    rpc.init_rpc(["trainer", "stepper"][rank], rank=rank, world_size=2)
    if rank == 0:
        train()
    rpc.shutdown()


if __name__ == "__main__":
    main()
