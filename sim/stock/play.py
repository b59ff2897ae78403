"""Scenarios of campaigns on PyTorch's compiled engine: one process to copy workers from, for all.

What is checked needs no events from inside a worker: what the steps came to, how the run ended,
what the workers' own counters say, and that every process lived.
"""

from __future__ import annotations

import atexit
import re
from collections.abc import Iterator
from dataclasses import dataclass

from squall.model.checks.calls import CALLS
from squall.model.checks.outcome import DETERMINISM, GRADIENTS, RETRY
from squall.model.events.run import Run, Violation
from squall.model.one_process.flow import forecast
from squall.model.one_process.interpreter import interpret
from squall.model.one_process.outcome import StepOutcome
from squall.sim.diff.compare import LEFT, first_line
from squall.sim.search.judge import MAX_STEPS, Scenario, Verdict
from squall.sim.stock.program import MODULES, TORN, NativeRun, run_native
from squall.sim.stock.zygote import Zygote

#: one scenario in so many is run twice, and the digests are compared
REPEAT_EVERY = 50


@dataclass
class _Shared:
    zygote: Zygote | None = None


_shared = _Shared()


def shared_zygote() -> Zygote:
    """The process that this one copies workers from; it is started once, and ends with this one."""
    if _shared.zygote is None:
        _shared.zygote = Zygote(MODULES)
        atexit.register(close_zygote)
    return _shared.zygote


def close_zygote() -> None:
    if _shared.zygote is not None:
        _shared.zygote.close()
        _shared.zygote = None


def run_scenario(scenario: Scenario) -> NativeRun:
    return run_native(
        scenario.program,
        shared_zygote(),
        plan=scenario.plan,
        shut_down_early=scenario.shut_down_early,
        seed=scenario.seed,
        latency=scenario.latency,
        order=scenario.order,
        rpc_timeout_s=scenario.rpc_timeout_s,
        bandwidth_bytes_per_s=scenario.bandwidth_bytes_per_s,
        max_steps=MAX_STEPS,
    )


def play_native(scenario: Scenario, *, times: int = 1) -> tuple[Run, list[Violation]]:
    """Play a scenario, perhaps more than once, and check what there is to check."""
    native = run_scenario(scenario)
    digests = [native.cluster.trace.digest()]
    digests += [run_scenario(scenario).cluster.trace.digest() for _ in range(times - 1)]
    run = Run(
        native.cluster.trace.records,
        scenario.program,
        interpret(scenario.program),
        native.outcome,
        ended_s=native.cluster.runtime.now(),
        waits=native.waits,
        crash=native.crash,
        digests=tuple(digests),
    )
    return run, list(_violations(run, native, faulty=bool(scenario.plan)))


def judge_native(scenario: Scenario) -> Verdict:
    """As :func:`squall.sim.search.judge.judge`."""
    run, violations = play_native(scenario, times=2 if scenario.seed % REPEAT_EVERY == 0 else 1)
    return Verdict(
        scenario.seed,
        tuple(violations),
        (),
        (),
        run.digests[0] if violations or len(run.digests) > 1 else "",
        len(run.records),
    )


def _violations(run: Run, native: NativeRun, *, faulty: bool) -> Iterator[Violation]:
    for death in native.deaths:
        what = f"a worker process died: {_plain(str(death).partition(': ')[2])}"
        yield Violation("processes", what, "it lives", str(death), death.worker, death.time_s)
    for worker in native.torn:
        yield Violation("processes", "a callback locks freed memory", "it does not", TORN, worker)
    if native.crash is not None and not native.deaths and not faulty:
        yield Violation("progress", "the run broke off", "an end", native.crash)
    assert run.program is not None and run.expected is not None
    may_hang = False
    for trainer, number, _ in run.program.steps:
        where = f"trainers[{trainer}].steps[{number}]"
        got = native.outcome.steps.get((trainer, number), StepOutcome())
        if forecast(run.program, trainer, number).unfed:
            may_hang = True
            continue
        if not got.finished and not may_hang and not faulty:
            yield Violation("progress", "a step does not end", f"{where} ends", "it waits")
        if not got.finished or faulty:
            continue
        expected = run.expected.steps[trainer, number]
        for one, other in (
            (expected.error, got.error),
            (expected.first_error, got.first_error),
        ):
            if other is not None and (one is None or one not in other):
                what = f"a step fails: {_plain(first_line(other))}"
                yield Violation("outcome", what, f"{where}: {one or 'a value'}", other)
            elif one is not None and other is None:
                yield Violation("outcome", "a step does not fail", f"{where}: {one}", "a value")
    for check in (GRADIENTS, RETRY, DETERMINISM):
        yield from check.check(run)
    for violation in CALLS.check(run):
        # PyTorch's texts go on where the port's end: with the stacks of C++ and of Python.
        parts = violation.expected.partition(": ")[2].split(";")
        if not all(part.strip() in violation.seen for part in parts):
            yield violation
    if native.waits and not may_hang and not native.deaths:
        yield Violation("progress", "a deadlock", "the run ends", "; ".join(native.waits))
    if not may_hang:
        for worker, table in enumerate(native.tables):
            for name in LEFT:
                if table.get(name):
                    seen = str(table[name])
                    yield Violation("left behind", name, "0 at the end", seen, worker)


def _plain(text: str) -> str:
    """The text without what differs from run to run."""
    text = re.sub(r"(trainers|steps|ops)\[\d+\]", r"\1[…]", text)
    return re.sub(r"\d+", "N", text)[:120]
