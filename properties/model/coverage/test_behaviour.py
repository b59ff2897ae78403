"""What a run says of itself, as facts that are the same everywhere."""

from __future__ import annotations

import json
import subprocess
import sys

from squall.model.coverage.behaviour import SETS, facts_of, pairs_of, set_of
from squall.model.events.digest import Record
from squall.real import tracing
from squall.sim.scenarios.replay import replay
from squall.sim.search.draw import draw

_FACTS = """
import json
from squall.model.coverage.behaviour import facts_of
from squall.sim.scenarios.replay import replay
from squall.sim.search.draw import draw
print(json.dumps(sorted(facts_of(replay(draw(3)).records))))
"""


def sets_of(records: list[Record]) -> list[str]:
    return sorted(map(set_of, facts_of(records)))


def test_facts_are_the_same_in_every_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FACTS], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == sorted(facts_of(replay(draw(3)).records))


def test_random_scenarios_show_facts_of_every_set_but_pairs() -> None:
    found = {set_of(fact) for seed in range(20) for fact in facts_of(replay(draw(seed)).records)}
    assert found == set(SETS) - {"p"}


def test_what_happens_again_is_no_new_fact() -> None:
    def created(number: int) -> Record:
        return 0.0, 1, 2, tracing.OWNER_CREATED, ((0, number),)

    once = facts_of([created(1), created(2)])
    assert facts_of([created(1), created(2), created(3), created(4)]) == once


def test_order_and_place_make_another_fact() -> None:
    rref = (0, 1)
    added: Record = 0.0, 0, 1, tracing.FORK_ADDED, (rref, (0, 2))
    value: Record = 0.0, 0, 1, tracing.OWNER_VALUE_SET, (rref, None)
    failed: Record = 0.0, 0, 1, tracing.OWNER_VALUE_SET, (rref, "an error")
    elsewhere: Record = 0.0, 1, 1, tracing.OWNER_VALUE_SET, (rref, None)
    found = [frozenset(facts_of([added, other])) for other in (value, failed, elsewhere)]
    assert len(set(found)) == 3
    assert facts_of([added, value]) != facts_of([value, added])


def test_a_call_is_followed_from_one_worker_to_the_other() -> None:
    started: Record = 0.0, 0, 1, tracing.CALL_STARTED, (7, 1, "PYTHON_CALL", 60.0, ())
    handled: Record = 0.1, 1, 2, tracing.HANDLER_STARTED, (0, "PYTHON_CALL", 7)
    of_another: Record = 0.1, 1, 2, tracing.HANDLER_STARTED, (0, "PYTHON_CALL", 8)
    assert facts_of([started, handled]) != facts_of([started, of_another])
    assert sets_of([started, handled]).count("k") == 2


def test_pairs_have_no_order() -> None:
    assert pairs_of(["a", "b", "c"]) == pairs_of(["c", "b", "a"])
    assert len(pairs_of(["a", "b", "c"])) == 3
    assert {set_of(fact) for fact in pairs_of(["a", "b"])} == {"p"}
