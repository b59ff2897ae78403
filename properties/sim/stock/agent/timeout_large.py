"""A timeout of 25 days or more, or without an end, is over at once."""

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def run(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        for timeout in (2.1e6, 2.2e6, float("inf")):
            try:
                print(
                    "w0:",
                    timeout,
                    rpc.rpc_sync("w1", max, args=([1, 2],), timeout=timeout),
                    flush=True,
                )
            except RuntimeError as error:
                print(f"w0: {timeout}: {error}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
