"""What a function has is let go when it drops it or ends, whatever it has called on a process group meanwhile."""

import gc
import weakref
from collections.abc import Callable

import torch
import torch.distributed as dist


class Mine:
    pass


def send_and_receive() -> None:
    rank, tensor = dist.get_rank(), torch.zeros(2)
    if rank == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)


def batch() -> None:
    other = 1 - dist.get_rank()
    operations = [
        dist.P2POp(dist.isend, torch.zeros(2), other),
        dist.P2POp(dist.irecv, torch.zeros(2), other),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def asynchronous() -> None:
    work = dist.all_reduce(torch.zeros(2), async_op=True)
    assert work is not None
    work.wait()


CALLS: dict[str, Callable[[], object]] = {
    "all_reduce": lambda: dist.all_reduce(torch.zeros(2)),
    "an asynchronous all_reduce": asynchronous,
    "all_gather": lambda: dist.all_gather([torch.zeros(2), torch.zeros(2)], torch.zeros(2)),
    "barrier": dist.barrier,
    "a message": send_and_receive,
    "a batch of messages": batch,
    "a new group": lambda: dist.new_group([0, 1]),
}


def kept_by(call: Callable[[], object]) -> tuple[bool, "weakref.ref[Mine]"]:
    dropped, mine = Mine(), Mine()
    of_dropped, of_mine = weakref.ref(dropped), weakref.ref(mine)
    call()
    del dropped
    return of_dropped() is not None, of_mine


def main() -> None:
    dist.init_process_group("gloo")
    gc.collect()
    gc.disable()
    for name, call in CALLS.items():
        dropped, mine = kept_by(call)
        said = "kept" if dropped or mine() is not None else "let go"
        print(f"rank {dist.get_rank()}: {said} after {name}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
