"""Messages of point to point, of one sender, receiver and tag, come in the order in which they were sent."""

from functools import partial

import torch
import torch.distributed as dist


def say(name, call):
    try:
        value = call()
    except Exception as error:
        value = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    print(f"R{rank} {name} {value}", flush=True)


def ordered(tag, count=8):
    values = [torch.full((1 + n % 3,), float(n)) for n in range(count)]
    if rank == 0:
        works = [dist.isend(value, 1, tag=tag) for value in values]
    else:
        values = [torch.zeros_like(value) for value in values]
        works = [dist.irecv(value, 0, tag=tag) for value in values]
    for work in works:
        work.wait()
    return [int(value[0]) for value in values]


def interleaved():
    """Two tags, of which the second is received first."""
    if rank == 0:
        works = [dist.isend(torch.tensor([n]), 1, tag=n % 2) for n in range(6)]
        return [work.wait() for work in works]
    boxes = [torch.zeros(1, dtype=torch.int64) for _ in range(6)]
    for at, box in enumerate(boxes):
        dist.recv(box, 0, tag=1 - at // 3)
    return [int(box) for box in boxes]


def completed():
    """Gloo does not say that a receive is over before somebody has waited for it."""
    box = torch.ones(1)
    work = dist.irecv(box, 1) if rank == 0 else dist.isend(box, 0)
    dist.barrier()
    before = work.is_completed()
    work.wait()
    return before, work.is_completed()


def as_bytes():
    """What is received is taken for what the receiver says that it is."""
    if rank == 0:
        dist.send(torch.arange(4.0), 1)
        return None
    box = torch.zeros(4, dtype=torch.int32)
    dist.recv(box, 0)
    return box.tolist()


def lists():
    objects = [{"rank": 0}, "x" * 500] if rank == 0 else [None, None]
    if rank == 0:
        dist.send_object_list(objects, 1)
    else:
        dist.recv_object_list(objects, 0)
    return objects[0], len(objects[1])


def stored():
    store = dist.distributed_c10d._get_default_store()
    store.set(f"k{rank}", "v")
    store.append(f"k{rank}", "w")
    store.queue_push(f"q{rank}", "x")
    found = store.get(f"k{rank}"), store.queue_len(f"q{rank}"), store.queue_pop(f"q{rank}")
    known = len(store.list_keys()) > 0, store.num_keys() > 0, store.delete_key(f"k{rank}")
    return found, known, store.check([f"k{rank}"])


dist.init_process_group("gloo")
rank = dist.get_rank()
for number in range(3):
    say(f"ordered {number}", partial(ordered, number))
for call in (interleaved, completed, as_bytes, lists, stored):
    say(call.__name__, call)
group = dist.new_group([1, 0])
say("group", partial(ordered, 7, 4))
dist.destroy_process_group()
