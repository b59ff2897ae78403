"""Stories about the default time limit of calls, which changes on the way."""

from __future__ import annotations

from typing import Any

from squall.model.program.stories import stories_of
from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.functions import async_execution
from squall.real.rpc.wire_names import label_module
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.programs.stories.api import told
from squall.sim.programs.stories.calls import SHORT_S, error_of, sleep

label_module(__name__, "limits")
story = stories_of(__name__, rank=80)

#: seconds: limits that strike no call of the step beside
_LIMITS_S = (150.0, 170.0, 190.0)
_FOREVER_S = 230.0


def _limit_s() -> float:
    limit: float = rpc.get_rpc_timeout()  # type: ignore[attr-defined]
    return limit


def _changing() -> Any:
    """A lock for who changes the default of this worker: two at once would restore each other's."""
    worker = current_worker()
    return worker.locals.setdefault("time limits", worker.runtime.lock("time limits"))


@async_execution
def later(value: Any, seconds: float) -> Future[Any]:
    """``value`` after some time, in which no thread is kept."""
    future: Future[Any] = Future()

    def end() -> None:
        sleep(seconds)
        future.set_result(value)

    current_task().runtime.spawn(end, name="later", worker=current_worker())
    return future


@story(
    "time limits",
    numbers={"changes": (1, 3), "first": (0, 2), "creations": (0, 1)},
    longest_s=_FOREVER_S + 20,
)
def time_limits(to: int, changes: int, first: int, creations: int) -> str:
    """A call has the limit that was the default as it was made, or its own, shorter, longer or
    none, whatever the default becomes; a limit of 0 is none."""
    calls: dict[str, tuple[Future[Any], float]] = {}
    created: list[Any] = []
    with _changing():
        before = _limit_s()
        try:
            for number in range(changes):
                limit = _LIMITS_S[(first + number) % len(_LIMITS_S)]
                rpc._set_rpc_timeout(limit)
                told_limit = _limit_s() == limit
                calls[f"late_{number}"] = rpc.rpc_async(to, later, (number, limit + 10)), limit
                calls[f"in_time_{number}"] = rpc.rpc_async(to, later, (number, limit - 10)), 0.0
                own = rpc.rpc_async(to, later, (number, limit), timeout=SHORT_S)
                calls[f"own_{number}"] = own, SHORT_S
                longer, work = limit + 15, (number, limit + 10)
                calls[f"longer_{number}"] = rpc.rpc_async(to, later, work, timeout=longer), 0.0
                calls[f"none_{number}"] = rpc.rpc_async(to, later, work, timeout=0), 0.0
                if creations:
                    created.append(rpc.remote(to, later, (number, limit - 10)))
                    created.append(rpc.remote(to, later, work, timeout=number * longer))
            rpc._set_rpc_timeout(0)
            calls["without"] = rpc.rpc_async(to, later, (0, _FOREVER_S)), 0.0
        finally:
            rpc._set_rpc_timeout(before)
        facts = {"told": told_limit, "restored": _limit_s() == before}
    for number, rref in enumerate(created):  # of which some take longer than the default again
        facts[f"created_{number}"] = rref.to_here(timeout=0) == number // 2
    for name, (call, limit) in calls.items():
        said = error_of(call.wait)
        text = f"RPC ran for more than set timeout ({limit * 1000:.0f} ms)" if limit else "no error"
        facts[name] = text in said
    return told(**facts)
