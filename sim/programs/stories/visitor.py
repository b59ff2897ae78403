"""Processes of a story's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.options import TensorPipeRpcBackendOptions
from squall.real.rpc.state import rpc_state
from squall.real.worker import Worker
from squall.sim.world.network import Network

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
