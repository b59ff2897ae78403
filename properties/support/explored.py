"""Small programs to explore, and choosers that follow an order of their own."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from squall.properties.support.paths import ROOT
from squall.real.autograd import api as dist_autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.py_rref import RRef
from squall.real.tracing import NULL_TRACER, Tracer
from squall.sim.explore.order import Order
from squall.sim.explore.target import Ended
from squall.sim.scenario import Scenario
from squall.sim.scenarios.file import load_scenario
from squall.sim.world.controlled_time import (
    Chooser,
    ChosenTime,
    Dependence,
    Entry,
    Footprint,
    Grain,
)
from squall.sim.world.scheduler import SimRuntime


def saved(name: str) -> Scenario:
    """A scenario that squall fuzz has once drawn: of one trainer on two workers (small, plain), of
    more (large, other), of workers that leave early (leaving), with a story that has a network of
    its own (own_network)."""
    return load_scenario(ROOT / "properties/sim/explore/scenarios" / f"{name}.json")


# -- programs of workers: main functions of worker 0 ----------------------------------------------


def calls(number: int) -> Callable[[], Any]:
    """So many calls to worker 1 at once."""

    def main() -> list[int]:
        under_way = [rpc.rpc_async("worker1", _same, args=(n,)) for n in range(number)]
        return [call.wait() for call in under_way]

    return main


def remote() -> Any:
    """A reference to what worker 1 makes: fetched, and dropped."""
    return rpc.remote("worker1", _make).to_here()


def call_with_autograd() -> float:
    """A call in a context, backward, and the context's release."""
    x = torch.ones(1, requires_grad=True)
    with dist_autograd.context() as context_id:
        y = rpc.rpc_sync("worker1", _scaled, args=(x, 2.0))
        dist_autograd.backward(context_id, [y.sum()])
        return float(dist_autograd.get_gradients(context_id)[x])


def shared_reference() -> Any:
    """A reference to what worker 1 makes, which worker 2 fetches and the creator drops."""
    rref = rpc.remote("worker1", _make)
    call = rpc.rpc_async("worker2", _fetch, args=(rref,))
    del rref
    return call.wait()


def diamond() -> float:
    """Gradients that come back by two ways, over workers 1 and 2."""
    x = torch.ones(1, requires_grad=True)
    with dist_autograd.context() as context_id:
        ways = [rpc.rpc_async(f"worker{n}", _scaled, args=(x, float(n))) for n in (1, 2)]
        total = ways[0].wait() + ways[1].wait()
        dist_autograd.backward(context_id, [total.sum()])
        return float(dist_autograd.get_gradients(context_id)[x])


def _same(n: int) -> int:
    return n


def _make() -> str:
    return "a value"


def _fetch(rref: RRef[Any]) -> Any:
    return rref.to_here()


def _scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


# -- programs of bare tasks -----------------------------------------------------------------------


class _Owner:
    """Whom a task belongs to that runs outside of a cluster."""

    id = 0

    def __init__(self, name: str) -> None:
        self.name = self.known_as = name
        self.tracer: Tracer = NULL_TRACER


class Tasks:
    """Tasks of a bare runtime, each of an owner of its own, so that they have in common only what
    they touch. ``make`` gives the functions of the tasks and what tells the final state."""

    def __init__(
        self,
        make: Callable[
            [SimRuntime, ChosenTime], tuple[Sequence[Callable[[], object]], Callable[[], object]]
        ],
    ) -> None:
        self._make = make

    def __call__(self, chooser: Chooser) -> Ended:
        time = ChosenTime(chooser)
        runtime = SimRuntime(time=time)
        functions, state = self._make(runtime, time)
        for number, function in enumerate(functions):
            name = f"task {number}"
            runtime.spawn(function, name=name, worker=_Owner(name), daemon=False)
        time.begin()
        try:
            runtime.run()
        finally:
            runtime.close()
        return Ended(repr(state()))


# -- choosers -------------------------------------------------------------------------------------


class Recorded:
    """Chooses at random, or what comes next in ``names``; keeps the order of what was done.

    ``parted``: whether something else was enabled than what ``names`` says.
    """

    crowded = False

    def __init__(
        self,
        grain: Grain,
        *,
        ordered: bool = False,
        dependence: Dependence = "delivery",
        stream: random.Random | None = None,
        names: Sequence[int] = (),
    ) -> None:
        self.grain: Grain = grain
        self.ordered = ordered
        self.dependence: Dependence = dependence
        self.order = Order()
        self.parted = False
        #: of each step, whether it was chosen
        self.chosen: list[bool] = []
        self._stream = stream
        self._names = list(reversed(names))

    def choose(self, enabled: Sequence[Entry]) -> Entry:
        if self._stream is not None:
            return self._stream.choice(enabled)
        wanted = self._names.pop() if self._names else -1
        for entry in enabled:
            if entry.name == wanted:
                return entry
        self.parted = True
        return enabled[0]

    def done(self, name: int, entry: Entry | None, footprint: Footprint) -> None:
        self.chosen.append(entry is not None and not entry.is_timed)
        self.order.add(name, None if entry is None else entry.parent, footprint)


def shuffled(recorded: Recorded, stream: random.Random) -> list[int]:
    """The names of what was chosen, in another order that agrees with what happened before what."""
    order = recorded.order
    left = list(range(len(order.names)))
    done, names = 0, []
    while left:
        ready = [each for each in left if not order.before[each] & ~done]
        step = stream.choice(ready)
        left.remove(step)
        done |= 1 << step
        if recorded.chosen[step]:
            names.append(order.names[step])
    return names
