# run: --workers 2 --faults lost_replies.json
# engines: port torch
# shows: AssertionError: trained on batches \[.*\], expected all 8
# fix: return queue.popleft() if queue else None => return queue[done] if done < len(queue) else None
"""A data server hands out batches; a trainer asks for the next one until it gets an answer."""

import os
from collections import deque

import torch
import torch.distributed.rpc as rpc

queue = deque((n, torch.full((4,), float(n))) for n in range(8))


def next_batch(done):
    return queue.popleft() if queue else None  # <- at fault


class Loader:
    """Batches of the data server, in their order."""

    def __init__(self, server):
        self.server = server

    def __iter__(self):
        done = 0
        while (batch := self.ask(done)) is not None:
            done += 1
            yield batch

    def ask(self, done):
        while True:
            try:
                return rpc.rpc_sync(self.server, next_batch, args=(done,), timeout=0.5)
            except RuntimeError as error:
                print("once more:", str(error)[:60])


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    rpc.init_rpc("data" if rank == 0 else "trainer", rank=rank, world_size=2)
    if rank == 1:
        numbers, total = [], torch.zeros(4)
        for number, batch in Loader("data"):
            numbers.append(number)
            total += batch
        assert numbers == list(range(8)), f"trained on batches {numbers}, expected all 8"
    rpc.shutdown()
