"""A store that takes its time, as one on the network does: workers that wait for one key do not go on
at one moment."""

from __future__ import annotations

from random import Random
from typing import Any

from squall.real.rpc.agent import RpcAgent
from squall.real.rpc.store import Store
from squall.real.runtime import Runtime, current_task
from squall.real.worker import current_worker

#: of a store that is adverse: how long it looks for a moment at which a worker has no call under way, how
#: often, and how many of its answers take their time besides
_LOOKS, _LOOK_S, _SLOW = 250, 0.0002, 0.5


class SlowStore(Store):
    """Each answer takes up to ``longest_s`` of virtual time, drawn from ``stream``. Questions that
    never block are answered at once.

    ``adverse``: each answer comes when its worker has no call under way, if there is such a moment
    soon: whoever counts calls by what workers tell each other there finds none, wherever they are.
    """

    def __init__(
        self, runtime: Runtime, stream: Random, *, longest_s: float, adverse: bool = False
    ) -> None:
        super().__init__(runtime)
        self._stream = stream
        self._longest_s = longest_s
        self._adverse = adverse

    def _travel(self) -> None:
        if self._adverse:
            _until_idle()
        if not self._adverse or self._stream.random() < _SLOW:
            current_task().runtime.sleep(self._stream.uniform(0.0, self._longest_s))
        if self._adverse:
            _until_idle()

    def set(self, key: str, value: Any) -> None:
        super().set(key, value)
        self._travel()

    def add(self, key: str, amount: int) -> int:
        value = super().add(key, amount)
        self._travel()
        return value

    def get(self, key: str, timeout_s: float | None = None, *, unless: str | None = None) -> Any:
        value = super().get(key, timeout_s, unless=unless)
        self._travel()
        return value

    def wait(self, keys: list[str], timeout_s: float | None = None) -> None:
        super().wait(keys, timeout_s)
        self._travel()


def _until_idle() -> None:
    """Let time pass until the worker has no call under way, or for as long as somebody looks for that."""
    worker = current_worker()
    for _ in range(_LOOKS):
        agent = worker.agent
        if not isinstance(agent, RpcAgent):
            return
        metrics = agent.get_metrics()
        if all(metrics[f"agent.{end}_active_calls"] == "0" for end in ("client", "server")):
            return
        worker.runtime.sleep(_LOOK_S)
