"""Exceptions of every class by every way of calling: the caller gets that class, as in plain Python."""

import builtins

import torch
import torch.distributed.rpc as rpc
from promise import promise, start


class Own(Exception):
    """An exception of a script's own."""


class OwnValue(ValueError):
    """One below a class of Python's."""


class Picky(Exception):
    """One that cannot be made of a text alone."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def kinds():
    """Every class of Python's own that a text makes, and a few more."""
    found = [
        each
        for each in vars(builtins).values()
        if isinstance(each, type) and issubclass(each, Exception) and not issubclass(each, Warning)
    ]
    found = [
        each for each in found if each not in (ExceptionGroup, StopIteration, StopAsyncIteration)
    ]
    return [*dict.fromkeys(found), Own, OwnValue, torch.OutOfMemoryError]


def fail(kind):
    if issubclass(kind, UnicodeDecodeError):
        raise kind("utf-8", b"x", 0, 1, "planted")
    if issubclass(kind, UnicodeEncodeError):
        raise kind("utf-8", "x", 0, 1, "planted")
    if issubclass(kind, UnicodeTranslateError):
        raise kind("x", 0, 1, "planted")
    raise kind("planted")


def picky():
    raise Picky(1, 2)


@rpc.functions.async_execution
def fail_later(kind):
    future = torch.futures.Future()
    future.set_exception(kind("planted"))
    return future


class Thing:
    def fail(self, kind):
        fail(kind)


WAYS = {
    "rpc_sync": lambda to, kind: rpc.rpc_sync(to, fail, (kind,)),
    "rpc_async": lambda to, kind: rpc.rpc_async(to, fail, (kind,)).wait(),
    "remote": lambda to, kind: rpc.remote(to, fail, (kind,)).to_here(),
    "callback": lambda to, kind: (
        rpc.rpc_async(to, fail, (kind,)).then(lambda done: done.wait()).wait()
    ),
    "helper rpc_sync": lambda to, kind: rpc.remote(to, Thing).rpc_sync().fail(kind),
    "helper rpc_async": lambda to, kind: rpc.remote(to, Thing).rpc_async().fail(kind).wait(),
    "helper remote": lambda to, kind: rpc.remote(to, Thing).remote().fail(kind).to_here(),
}


def main():
    for kind in kinds():
        for way, call in WAYS.items():
            for where, to in (("", "w1"), (" at home", "w0")):
                promise(f"{kind.__name__} by {way}{where}", lambda: call(to, kind), kind)
    for way in ("rpc_sync", "rpc_async", "remote"):
        # The text has to come, whatever class a class with arguments of its own becomes.
        def text(way=way):
            try:
                done = getattr(rpc, way)("w1", picky)
                return done.wait() if way == "rpc_async" else done.to_here()
            except Exception as error:
                return "1 2" in str(error)

        promise(f"a class with arguments of its own by {way}", text, True)
        kept = {
            "rpc_sync": lambda: rpc.rpc_sync("w1", fail_later, (KeyError,)),
            "rpc_async": lambda: rpc.rpc_async("w1", fail_later, (KeyError,)).wait(),
            "remote": lambda: rpc.remote("w1", fail_later, (KeyError,)).to_here(),
        }[way]
        promise(f"an async function that fails by {way}", kept, KeyError)


if __name__ == "__main__":
    start(main)
