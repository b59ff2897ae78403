# run: --workers 3
# engines: port torch
# shows: AssertionError: accuracy of \d of 6 shards
# fix: torch.futures.wait_all(calls[-2:]) => torch.futures.wait_all(calls)
"""Workers evaluate shards of a data set; callbacks collect what they found."""

import os

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def evaluate(shard):
    generator = torch.Generator().manual_seed(shard)
    return torch.rand(16, generator=generator).gt(0.3).float().mean().item()


class Scores:
    def __init__(self):
        self.by_shard = {}

    def ask(self, worker, shard):
        call = rpc.rpc_async(worker, evaluate, args=(shard,))
        return call.then(lambda done: self.by_shard.update({shard: done.value()}))

    def mean(self, shards):
        found = list(self.by_shard.values())
        assert len(found) == shards, f"accuracy of {len(found)} of {shards} shards"
        return sum(found) / shards


def main(rank, size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29562"
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
    if rank == 0:
        scores = Scores()
        calls = [scores.ask(f"worker{1 + shard % 2}", shard) for shard in range(6)]
        torch.futures.wait_all(calls[-2:])  # <- at fault
        print("accuracy", scores.mean(6))
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(main, args=(3,), nprocs=3)
