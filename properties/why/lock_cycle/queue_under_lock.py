# run: --workers 2
# engines: port torch
# shows: (deadlock|hang):
# fix: with self.lock:\n            item = self.items.get() => item = self.items.get()\n        with self.lock:
"""An object with a queue: a consumer takes items out, a producer on another worker puts them in."""

import os
import queue
import threading

import torch
import torch.distributed.rpc as rpc


class Channel:
    def __init__(self, size):
        self.items = queue.Queue(size)
        self.lock = threading.Lock()
        self.taken = self.given = 0

    def put(self, item):
        with self.lock:  # <- second
            self.given += 1
            self.items.put(item)

    def take(self):
        with self.lock:
            item = self.items.get()  # <- first
            self.taken += 1
        return item


def produce(channel, count):
    for n in range(count):
        channel.rpc_sync(timeout=0).put(torch.full((2,), float(n)))


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    rpc.init_rpc("consumer" if rank == 0 else "producer", rank=rank, world_size=2)
    if rank == 0:
        channel = Channel(4)
        producer = rpc.rpc_async("producer", produce, args=(rpc.RRef(channel), 5), timeout=0)
        total = sum(channel.take() for _ in range(5))
        producer.wait()
        assert total.tolist() == [10, 10]
    rpc.shutdown()
