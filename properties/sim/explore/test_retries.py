"""Each control message of a shared reference lost once, in every order: its retry makes it good."""

from __future__ import annotations

from typing import Any

import pytest

from squall.properties.support import explored as programs
from squall.properties.support.explored_contexts import nothing_left
from squall.sim.cluster import Cluster
from squall.sim.explore.execution import How
from squall.sim.explore.functions import FunctionTarget
from squall.sim.explore.search import explore
from squall.sim.faults.plan import Drop, Duplicate, MessageFault, Plan
from squall.sim.scenarios.settings import campaign_settings


def check(got: dict[int, Any], cluster: Cluster) -> list[str]:
    wrong = [] if got == {0: "a value"} else ["another result"]
    return wrong + nothing_left(got, cluster)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("type", "src", "dst", "lost", "doubled"),
    [
        ("RREF_FORK_REQUEST", 2, 1, 22, 228),
        ("RREF_CHILD_ACCEPT", 2, 0, 6, 492),
        ("RREF_USER_DELETE", 0, 1, 45, 261),
        ("RREF_USER_DELETE", 2, 1, 55, 213),
    ],
)
def test_a_control_message_is_lost_or_doubled(
    type: str, src: int, dst: int, lost: int, doubled: int
) -> None:
    """The reference is fetched and dropped as if nothing had been: so many classes of orders."""
    this = {"types": (type,), "src": src, "dst": dst, "nth": (1,)}
    faults: list[tuple[MessageFault, int]] = [
        (Drop(**this), lost),
        (Duplicate(**this), doubled),
    ]
    for fault, classes in faults:
        story = FunctionTarget(
            3, programs.shared_reference, check=check, faults=Plan(messages=(fault,))
        )
        with campaign_settings():
            found = explore(story, How("message"))
        assert found.exhausted and not found.found
        assert (found.complete, found.pruned, len(found.states)) == (classes, 0, 1)
