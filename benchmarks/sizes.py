"""What a scenario costs as it grows: from 2 to 64 workers, and from 10 to 10,000 nodes.

A scenario here is all of it: the program in one process, the workers, their start and their end,
every event, every check. Its size is the number of autograd nodes that are run and of messages
that are sent; the cost for each of them should stay what it is.

    python -m benchmarks.sizes
"""

from __future__ import annotations

import time

from squall.model.checks.registry import check
from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer
from squall.real import tracing
from squall.sim.scenario import Scenario, World
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.judge import play

WORKERS = (2, 8, 64)
NODES = (10, 100, 1_000, 10_000)
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


def measure() -> list[dict[str, float]]:
    """A row for each size: seconds of one core, nodes, messages, microseconds for one of these."""
    rows = []
    with campaign_settings():
        play(Scenario(work=program_of(2, 100), world=World(latency="0")))
        for workers in WORKERS:
            for nodes in NODES:
                scenario = Scenario(work=program_of(workers, nodes), world=World(latency="0.001"))
                started = time.process_time()
                run = play(scenario)
                ran = time.process_time()
                violations = check(run)
                ended = time.process_time()
                assert not violations, violations[0]
                done, sent = len(run.of(tracing.NODE_EXECUTED)), len(run.of(tracing.MESSAGE_SENT))
                rows.append(
                    {
                        "workers": workers,
                        "nodes": done,
                        "messages": sent,
                        "seconds": ended - started,
                        "checks_s": ended - ran,
                        "us_each": (ended - started) / (done + sent) * 1e6,
                    }
                )
    return rows


if __name__ == "__main__":
    for row in measure():
        print(
            f"{row['workers']:3.0f} workers {row['nodes']:7,.0f} nodes {row['messages']:6,.0f} "
            f"messages {row['seconds']:7.3f} s, checks {row['checks_s']:6.3f} s, "
            f"{row['us_each']:6.0f} us each"
        )
