"""What a scenario costs as it grows: from 2 to 64 workers, and from 10 to 10,000 nodes.

A scenario here is all of it: the program in one process, the workers, their start and their end,
every event, every check. Its size is the number of autograd nodes that are run and of messages
that are sent; the cost for each of them should stay what it is, that of each check too.

    python -m benchmarks.sizes
"""

from __future__ import annotations

import time

from squall.model.checks.registry import PROPERTIES
from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer
from squall.real import tracing
from squall.sim.scenario import Scenario, World
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings

WORKERS = (2, 8, 64)
NODES = (10, 100, 1_000, 10_000)
#: and more, with as many workers: the cost of each check
CHECKED_WORKERS = 2
CHECKED_NODES = (1_000, 10_000, 100_000)
#: microseconds for each node and message that a check takes, to be shown
_WORTH_TELLING_US = 0.5
#: one operation in so many is done on another worker
REMOTE_EVERY = 8
#: nodes that an operation here comes to, about, with the messages that it sends now and then
_NODES_PER_OP = 1.25


def program_of(workers: int, nodes: int) -> Program:
    """A chain of sums; each takes the value before and the one before that, or a leaf."""
    count = max(4, round(nodes / _NODES_PER_OP))
    leaves = tuple(Leaf(owner=owner, shape=(2,), seed=owner) for owner in range(workers))
    ops = []
    for index in range(count):
        remote = index % REMOTE_EVERY == REMOTE_EVERY - 1
        owner = (index // REMOTE_EVERY) % workers
        ops.append(
            Op(
                kind="sub" if index % 2 else "add",
                inputs=(Input(1), Input(2)) if index > 1 else (Input(1), Input(workers)),
                worker=owner if remote else 0,
                call="sync" if remote else "local",
            )
        )
    ops.append(Op(kind="total", inputs=(Input(1), Input(2)), worker=0))
    step = Step(ops=tuple(ops), backwards=(Backward(roots=(1,)),))
    # Not in mode exact: a sum of so many has no bound that integers keep.
    return Program(
        workers=workers, leaves=leaves, trainers=(Trainer(worker=0, steps=(step,)),), mode="float"
    )


def measure_one(workers: int, nodes: int) -> tuple[dict[str, float], dict[str, float]]:
    """Of one size: seconds of one core, nodes, messages, microseconds for one of these; and of these
    each check's, by property."""
    scenario = Scenario(work=program_of(workers, nodes), world=World(latency="0.001"))
    started = time.process_time()
    run = play(scenario)
    took: dict[str, float] = {}
    for property in [each for each in PROPERTIES if each.judges(run)]:
        began = time.process_time()
        violations = list(property.check(run))
        took[property.name] = took.get(property.name, 0.0) + time.process_time() - began
        assert not violations, violations[0]
    seconds = time.process_time() - started
    done, sent = len(run.of(tracing.NODE_EXECUTED)), len(run.of(tracing.MESSAGE_SENT))
    each_us = 1e6 / (done + sent)
    row = {
        "workers": workers,
        "nodes": done,
        "messages": sent,
        "seconds": seconds,
        "checks_s": sum(took.values()),
        "us_each": seconds * each_us,
    }
    return row, {name: seconds * each_us for name, seconds in took.items()}


def measure() -> list[dict[str, float]]:
    """A row for each size, as :func:`measure_one` has it."""
    with campaign_settings():
        play(Scenario(work=program_of(2, 100), world=World(latency="0")))
        return [measure_one(workers, nodes)[0] for workers in WORKERS for nodes in NODES]


def measure_checks() -> dict[str, list[float]]:
    """By property: microseconds for each node and message, at each of :data:`CHECKED_NODES`."""
    found: dict[str, list[float]] = {}
    with campaign_settings():
        for nodes in CHECKED_NODES:
            for name, each_us in measure_one(CHECKED_WORKERS, nodes)[1].items():
                found.setdefault(name, []).append(each_us)
    return found


if __name__ == "__main__":
    for row in measure():
        print(
            f"{row['workers']:3.0f} workers {row['nodes']:7,.0f} nodes {row['messages']:6,.0f} "
            f"messages {row['seconds']:7.3f} s, checks {row['checks_s']:6.3f} s, "
            f"{row['us_each']:6.0f} us each"
        )
    for name, each_us in measure_checks().items():
        if max(each_us) >= _WORTH_TELLING_US:
            at = " ".join(f"{us:6.2f}" for us in each_us)
            print(f"check {name:13} {at} us each, at {', '.join(map(str, CHECKED_NODES))} nodes")
