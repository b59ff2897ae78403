"""What each script here shares: three workers, and lines that say which promises hold.

A promise is a name and what must come of a call: what the documentation says, or what plain Python does in one process.
"""

import os

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

WORLD = 3
#: what a call and a creation say whose time is over
OVER = ("RPC ran for more than set timeout", "RRef creation via rpc.remote() timed out")


def outcome(call):
    """Its value, or the class of what it raises, or that it took longer than its limit."""
    try:
        return call()
    except Exception as error:
        return "timed out" if any(text in str(error) for text in OVER) else type(error)


def alike(one, other):
    """Equal, tensors element by element, and of one class."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and torch.equal(one.detach(), other.detach())
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    return one == other or (one != one and other != other)


def shown(value):
    return " ".join(repr(value).split())[:120]


def promise(name, call, expected):
    """Print whether it holds. ``call`` is made; ``expected`` is a value, or the class of an error."""
    got = outcome(call)
    print(
        f"{name}: {'ok' if alike(got, expected) else f'not so: {shown(got)}, promised {shown(expected)}'}",
        flush=True,
    )


def same_as_here(name, remotely, here):
    """What comes of a call elsewhere is what comes of it here."""
    promise(name, remotely, outcome(here))


def _run(rank, main, options):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29500")
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=WORLD, **options)
    if rank == 0:
        main()
    rpc.shutdown()


def start(main, **options):
    """Run ``main`` on worker w0, beside w1 and w2."""
    mp.spawn(_run, args=(main, options), nprocs=WORLD)
