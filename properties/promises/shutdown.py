"""``shutdown`` called from everywhere: it ends, and says what it cannot do; a graceful one waits for what is under way."""

import os
import threading
import time

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from promise import WORLD, outcome, promise

LIMIT_S = 20.0
DONE = []


def slow(x):
    time.sleep(0.3)
    DONE.append(x)
    return x


def done():
    return DONE


def double(x):
    return x * 2


def within(call, limit_s=LIMIT_S):
    """What comes of a call on a thread of its own, or that it does not end."""
    got = []
    thread = threading.Thread(target=lambda: got.append(outcome(call)), daemon=True)
    thread.start()
    thread.join(limit_s)
    return got[0] if got else "does not end"


def meet(rank, group):
    rpc.init_rpc(
        f"w{rank}",
        rank=rank,
        world_size=WORLD,
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
            init_method=f"tcp://localhost:{int(os.environ['MASTER_PORT']) + group}", rpc_timeout=10
        ),
    )


def say(rank, name, call, expected):
    if rank == 0:
        promise(name, call, expected)
    else:
        outcome(call)


# Each: a name, and what the three workers do; all have joined a group of its own before.


def plainly(rank):
    say(rank, "on the main thread", lambda: within(rpc.shutdown), None)


def twice(rank):
    within(rpc.shutdown)
    say(rank, "a second time is refused", lambda: within(rpc.shutdown), RuntimeError)


def on_a_thread(rank):
    say(rank, "on another thread", lambda: within(lambda: within(rpc.shutdown)), None)


def with_calls_under_way(rank):
    calls = [rpc.rpc_async(f"w{(rank + 1) % WORLD}", slow, (at,)) for at in range(3)]
    say(rank, "with calls under way", lambda: within(rpc.shutdown), None)
    say(rank, "those calls have ended", lambda: [call.done() for call in calls], [True] * 3)
    say(rank, "their values are there", lambda: [call.wait() for call in calls], [0, 1, 2])
    say(rank, "the others' calls here have run", lambda: len(DONE), 3)
    DONE.clear()


def with_references(rank):
    ref = rpc.remote(f"w{(rank + 1) % WORLD}", slow, (rank,))
    value = ref.to_here()
    say(rank, "with a reference in hand", lambda: within(rpc.shutdown), None)
    say(rank, "its value, fetched before", lambda: value, rank)
    say(
        rank, "it cannot be fetched afterwards", lambda: isinstance(within(ref.to_here), type), True
    )
    DONE.clear()


def within_a_context(rank):
    with dist_autograd.context() as context_id:
        x = torch.ones(2, requires_grad=True)
        y = rpc.rpc_sync(f"w{(rank + 1) % WORLD}", double, (x,))
        dist_autograd.backward(context_id, [y.sum()])
        say(rank, "within a context", lambda: within(rpc.shutdown), None)
        say(
            rank,
            "the gradient is there still",
            lambda: dist_autograd.get_gradients(context_id)[x].tolist(),
            [2.0, 2.0],
        )


def with_a_callback(rank):
    said = []
    call = rpc.rpc_async(f"w{(rank + 1) % WORLD}", slow, (1,))
    call.then(lambda each: said.append(each.wait()))
    say(rank, "with a callback under way", lambda: within(rpc.shutdown), None)
    say(rank, "it has run", lambda: said, [1])
    DONE.clear()


def without_grace(rank):
    rpc.api._barrier({f"w{each}" for each in range(WORLD)})
    say(rank, "without grace", lambda: within(lambda: rpc.shutdown(graceful=False)), None)


def limits(rank):
    say(
        rank,
        "with a limit of 0, which is none",
        lambda: within(lambda: rpc.shutdown(timeout=0)),
        None,
    )


def with_a_limit(rank):
    # All are there: nobody is waited for.
    say(rank, "with a limit of 30 s", lambda: within(lambda: rpc.shutdown(timeout=30)), None)


# References come first: in a later group of a process they are never deleted (references-after-a-second-init).
GROUPS = (
    with_references,
    plainly,
    twice,
    on_a_thread,
    with_calls_under_way,
    with_a_callback,
    within_a_context,
    limits,
    with_a_limit,
    without_grace,
)


def run(rank):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29500")
    torch.set_num_threads(1)
    if rank == 0:
        promise("before init_rpc it is refused", lambda: within(rpc.shutdown), RuntimeError)
        promise(
            "before init_rpc, without grace",
            lambda: within(lambda: rpc.shutdown(graceful=False)),
            RuntimeError,
        )
    for number, group in enumerate(GROUPS):
        meet(rank, number)
        group(rank)
    if rank == 0:
        promise(
            "after the last group, a call is refused",
            lambda: rpc.rpc_sync("w1", done),
            RuntimeError,
        )


if __name__ == "__main__":
    mp.spawn(run, nprocs=WORLD)
