"""The last run of this process, for whoever has to say how to see it again.

A run is noted as it starts, by reference, and made a scenario only when somebody asks: that costs
a run nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squall.model.program.program import Program
    from squall.sim.scenarios.file import SavedScenario
    from squall.sim.scripts.run import ScriptScenario

_last: tuple[Any, ...] | None = None

#: options of a cluster that a scenario file has a place for
_KNOWN = frozenset(
    {
        "seed",
        "latency",
        "bandwidth_bytes_per_s",
        "order",
        "faults",
        "rpc_timeout_s",
        "max_steps",
        "skip_handshakes",
    }
)


def note_program(program: Program, shut_down_early: bool, options: Mapping[str, Any]) -> None:
    """A program is about to run on a cluster with these options."""
    global _last
    _last = ("program", program, shut_down_early, options)


def note_script(scenario: ScriptScenario) -> None:
    """A script is about to run."""
    global _last
    _last = ("script", scenario)


def forget() -> None:
    """Nothing has run yet."""
    global _last
    _last = None


def last_scenario() -> SavedScenario | None:
    """The scenario of the last run; None if there was none, or if no file can hold it."""
    if _last is None:
        return None
    if _last[0] == "script":
        from squall.sim.scenarios.replay import saved_script

        try:
            return saved_script(_last[1])
        except (OSError, UnicodeDecodeError):
            return None
    return _of_program(*_last[1:])


def _of_program(
    program: Program, shut_down_early: bool, options: Mapping[str, Any]
) -> SavedScenario | None:
    from squall.real.rpc.constants import DEFAULT_RPC_TIMEOUT_S
    from squall.sim.faults.plan import NO_FAULTS
    from squall.sim.scenarios.file import NetworkSpec, SavedScenario

    latency, order = options.get("latency", "0"), options.get("order", "fifo")
    if set(options) - _KNOWN or not isinstance(latency, str) or not isinstance(order, str):
        return None
    plan = options.get("faults", NO_FAULTS)
    if order != "fifo":
        plan = replace(plan, schedule=replace(plan.schedule, order=order))
    return SavedScenario(
        seed=options.get("seed", 0),
        program=program,
        network=NetworkSpec(
            latency=latency, bandwidth_bytes_per_s=options.get("bandwidth_bytes_per_s")
        ),
        faults=plan,
        shut_down_early=shut_down_early,
        skip_handshakes=options.get("skip_handshakes", False),
        rpc_timeout_s=options.get("rpc_timeout_s", DEFAULT_RPC_TIMEOUT_S),
    )
