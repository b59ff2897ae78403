"""The types and texts of errors that functions raise."""

import time

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow(seconds):
    time.sleep(seconds)
    return seconds


class OwnError(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def fail(kind, *words):
    raise kind(*words)


@rpc.functions.async_execution
def no_future():
    return 3


def show(function, *args):
    try:
        print("w0: a value", rpc.rpc_sync("w1", function, args=args), flush=True)
    except Exception as error:
        head = [line[:60] for line in str(error).splitlines()[:2]]
        print(f"w0: {type(error).__name__}: {head}", flush=True)


def run(rank):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        for words in (
            (ValueError, "a 'word'"),
            (KeyError, "k"),
            (OwnError, 1, 2),
            (StopIteration,),
        ):
            show(fail, *words)
        show(no_future)
        show(torch.add, torch.zeros(2), torch.zeros(3))
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
