"""Processes of a story's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.options import TensorPipeRpcBackendOptions
from squall.real.rpc.state import rpc_state
from squall.real.worker import Worker, current_worker
from squall.sim.world.leftovers import left_in
from squall.sim.world.network import Network
from squall.sim.world.scheduler import SimRuntime

#: latencies of their networks: some messages overtake others, or none takes any time
LATENCIES = ("0.001", "uniform:0.0001:0.01", "0")
#: why PyTorch's engine cannot have them
OWN_AGENTS = "the agent that carries the messages of PyTorch's engine knows its group beforehand"
#: what may be given, and how the options call it
_OPTIONS = (("threads", "num_worker_threads"), ("limit_s", "rpc_timeout"))


class Visitor:
    """A process of its own, on a network beside that of the program."""

    def __init__(self, network: Network, name: str, number: int) -> None:
        self.name, self.number = name, number
        self.worker = Worker(network.runtime, network, name=name)

    def begin(self, function: Callable[[], Any]) -> Future[Any]:
        """Call a function in a task of the visitor."""
        end: Future[Any] = Future()

        def run() -> None:
            try:
                value = function()
            except Exception as error:
                end.set_exception(error)
            else:
                end.set_result(value)

        self.worker.runtime.spawn(run, name="visitor", worker=self.worker, daemon=False)
        return end

    def do(self, function: Callable[[], Any]) -> Any:
        return self.begin(function).wait()

    def enter(self, where: str, **given: Any) -> Future[Any]:
        """Enter a group: one of no fixed size, unless the world size is given. ``threads`` and
        ``limit_s`` are options of its backend."""
        options = TensorPipeRpcBackendOptions(
            init_method=where,
            **{name: given.pop(key) for key, name in _OPTIONS if key in given},
        )
        return self.begin(
            partial(rpc.init_rpc, self.name, rank=self.number, rpc_backend_options=options, **given)
        )

    def sees(self) -> list[tuple[str, int]]:
        """The names and numbers of those who are there, by number; the names only, where they are
        not those of all who would take part in a gather."""
        infos = self.do(lambda: rpc._get_current_rpc_agent().get_worker_infos())
        names = rpc_state(self.worker).all_worker_names
        if set(names) != {info.name for info in infos}:
            return [(name, -1) for name in names]
        return sorted((info.name, info.id) for info in infos)


def network_beside(latency: int = 0) -> Network:
    """A network of a story's own, of which the run tells nothing: its checks know workers by numbers."""
    runtime = current_worker().runtime
    assert isinstance(runtime, SimRuntime)
    return Network(runtime, latency=LATENCIES[latency % len(LATENCIES)])


def all_do(there: Sequence[Visitor], function: Callable[[], Any]) -> list[Any]:
    """What comes of a function that all call at once."""
    ends = [each.begin(function) for each in there]
    return [end.wait() for end in ends]


def all_enter(there: Sequence[Visitor], where: str, **given: Any) -> None:
    """Have all of a group enter it at once."""
    ends = [each.enter(where, **{"world_size": len(there), **given}) for each in there]
    for end in ends:
        end.wait()


def not_empty(there: Sequence[Visitor]) -> dict[str, bool]:
    """What is left of their groups, as facts that do not hold."""
    left = [(each, leftover) for each in there for leftover in left_in(each.worker)]
    return {f"{leftover.where} of {each.name} is empty": False for each, leftover in left}
