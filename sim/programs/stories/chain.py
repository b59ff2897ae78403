"""Follows chains of references (model/program/chain.py)."""

from __future__ import annotations

from typing import Any

from squall.model.program.stories import AS_IT_SHOULD_BE
from squall.real.rpc import api as rpc
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.stories.calls import sleep

label_module(__name__, "chain")

#: seconds that a slow function takes
SLOW_S = 0.05


# -- on any worker ----------------------------------------------------------------------------------


class Number:
    """A number whose methods are called where it is."""

    def __init__(self, number: int) -> None:
        self.number = number

    def plus(self, more: int) -> Any:
        return Number(self.number + more)

    def get(self) -> int:
        return self.number


class Shelf:
    """Keeps a reference for a while."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def put(self, rref: Any) -> None:
        self.kept.append(rref)

    def take(self) -> Any:
        return self.kept.pop()


def slow_number(number: int) -> Number:
    sleep(SLOW_S)
    return Number(number)


def reference(number: int) -> Any:
    return rpc.RRef(Number(number))


def reference_on(worker: int, number: int) -> Any:
    return rpc.remote(worker, Number, args=(number,))


def same(rref: Any, *_: Any) -> Any:
    return rref


def second(_: Any, rref: Any) -> Any:
    return rref


def one_more(rref: Any) -> Number:
    return Number(rref.to_here().get() + 1)


def read(rref: Any) -> int:
    number: int = rref.to_here().get()
    return number


# -- on the trainer's worker --------------------------------------------------------------------------


def origin(chain: dict[str, Any], to: int) -> Any:
    how, number = chain["origin"], chain["number"]
    if how == "own":
        return rpc.RRef(Number(number))
    if how == "returned":
        return rpc.rpc_sync(to, reference, args=(number,))
    if how == "elsewhere":
        via = chain["via"][0] if chain["via"] else to
        return rpc.rpc_sync(via, reference_on, args=(to, number))
    return rpc.remote(to, slow_number if how == "slow" else Number, args=(number,))


def linked(kind: str, worker: int, last: list[Any]) -> Any:
    """The next reference. ``last`` has the one before, and nobody else should: it is taken out."""
    if kind == "add":
        return rpc.remote(worker, one_more, args=(last.pop(),))
    if kind == "proxy":
        return last.pop().remote().plus(1)
    if kind == "store":
        shelf = rpc.remote(worker, Shelf)
        put = shelf.rpc_async().put(last.pop())
        put.wait()
        return shelf.rpc_sync().take()
    if kind == "twice":
        given = rpc.rpc_async(worker, second, args=(last[0], last.pop()))
        return given.wait()
    if kind == "pass_async":
        given = rpc.rpc_async(worker, same, args=(last.pop(),))
        return given.wait()
    return rpc.rpc_sync(worker, same, args=(last.pop(),))


def asked(ending: str, worker: int, last: list[Any]) -> Any:
    """The number, asked for with nobody left who has the reference; None if it is dropped."""
    if ending == "to_here":
        return last.pop().to_here().get()
    if ending == "proxy_sync":
        return last.pop().rpc_sync().get()
    if ending == "proxy_async":
        future = last.pop().rpc_async().get()
        return future.wait()
    if ending == "proxy_remote":
        return last.pop().remote().get().to_here()
    if ending == "there":
        return rpc.rpc_sync(worker, read, args=(last.pop(),))
    last.clear()
    return None


def follow(chain: dict[str, Any], to: int) -> str:
    """Follow a chain to its end: whether it comes to what it has to."""
    held = []
    last = [origin(chain, to)]
    for kind, worker, holds in chain["links"]:
        if chain["waits"]:
            last[0].to_here()
        if holds:
            held.append(last[0])
        last.append(linked(kind, worker, last))
    if chain["waits"]:
        last[0].to_here()
    readers = [rpc.rpc_async(worker, read, args=(last[0],)) for worker in chain["readers"]]
    found = asked(chain["ending"], to, last)
    numbers = [reader.wait() for reader in readers]
    wanted = chain["expected"]
    if found not in (wanted, None) or (found is None) != (chain["ending"] == "dropped"):
        return f"it came to {found}, expected {wanted}"
    if numbers != [wanted] * len(numbers):
        return f"readers had {numbers}, expected {wanted}"
    firsts = [each.to_here().get() for each in held]
    if any(not chain["number"] <= first <= wanted for first in firsts) or firsts != sorted(firsts):
        return f"what was held came to {firsts}, expected {chain['number']} to {wanted}"
    return AS_IT_SHOULD_BE
