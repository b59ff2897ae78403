"""The state machine of RRefs on short lists of events: Olga is the owner, Ulla and Uwe are
users."""

from __future__ import annotations

from typing import Any

import pytest

from squall.model.checks.registry import named_property
from squall.model.events.digest import Record
from squall.model.events.rref import TYPES, Protocol
from squall.model.events.rref_state import Breach
from squall.model.events.run import Run
from squall.real import tracing
from squall.real.tracing import EventType

OLGA, ULLA, UWE = 0, 1, 2
RREF, ULLAS, UWES = (ULLA, 0), (ULLA, 1), (ULLA, 2)

Told = tuple[int, EventType, tuple[Any, ...]]

CREATED: list[Told] = [
    (ULLA, tracing.USER_CREATED, (RREF, ULLAS, OLGA, ULLA)),
    (ULLA, tracing.USER_PENDING, (RREF, ULLAS)),
    (OLGA, tracing.FORK_ADDED, (RREF, ULLAS)),
    (OLGA, tracing.OWNER_CREATED, (RREF,)),
    (OLGA, tracing.OWNER_VALUE_SET, (RREF, None)),
    (ULLA, tracing.USER_CONFIRMED, (RREF, ULLAS)),
]
SHARED: list[Told] = [
    *CREATED,
    (ULLA, tracing.CHILD_PENDING, (RREF, ULLAS, UWES)),
    (UWE, tracing.USER_CREATED, (RREF, UWES, OLGA, ULLA)),
    (UWE, tracing.USER_PENDING, (RREF, UWES)),
    (OLGA, tracing.FORK_ADDED, (RREF, UWES)),
    (UWE, tracing.USER_CONFIRMED, (RREF, UWES)),
    (ULLA, tracing.CHILD_ACCEPTED, (UWES,)),
]
GONE: list[Told] = [
    (ULLA, tracing.USER_DELETED, (RREF, ULLAS)),
    (OLGA, tracing.FORK_DELETED, (RREF, ULLAS)),
    (UWE, tracing.USER_DELETED, (RREF, UWES)),
    (OLGA, tracing.FORK_DELETED, (RREF, UWES)),
    (OLGA, tracing.OWNER_DELETED, (RREF,)),
]


def tell(story: list[Told], *, task: int = 1) -> tuple[Protocol, list[str]]:
    protocol = Protocol()
    breaches: list[Breach] = []
    for worker, type, values in story:
        assert type in TYPES
        breaches += protocol.take(worker, task, type, values)
    return protocol, [breach.what for breach in breaches]


def without(story: list[Told], type: EventType, *ids: Any) -> list[Told]:
    return [told for told in story if told[1] is not type or told[2][-len(ids) :] != ids]


def test_created_shared_and_dropped_nothing_is_left() -> None:
    protocol, breaches = tell(SHARED + GONE)
    assert breaches == []
    assert list(protocol.left()) == []


def test_what_is_still_there_is_told() -> None:
    protocol, breaches = tell(SHARED[:-1])
    assert breaches == []
    assert sorted(breach.what for breach in protocol.left()) == [
        "a fork was left",
        "a fork was left",
        "a pending child was left",
        "a user was left",
        "a user was left",
        "an owner was left",
    ]


def test_an_owner_may_not_free_what_somebody_uses() -> None:
    freed = (OLGA, tracing.OWNER_DELETED, (RREF,))
    assert tell([*CREATED, freed])[1] == ["a value was freed while its owner knew a fork"]
    forgotten = (OLGA, tracing.FORK_DELETED, (RREF, ULLAS))
    assert tell([*CREATED, forgotten, freed])[1] == [
        "a fork was deleted while its user was alive",
        "a value was freed while a user was alive",
    ]


def test_a_fork_on_its_way_keeps_the_value() -> None:
    story = [
        *CREATED,
        (ULLA, tracing.CHILD_PENDING, (RREF, ULLAS, UWES)),
        (ULLA, tracing.USER_DELETED, (RREF, ULLAS)),
        (OLGA, tracing.FORK_DELETED, (RREF, ULLAS)),
        (OLGA, tracing.OWNER_DELETED, (RREF,)),
    ]
    assert tell(story)[1] == [
        "a parent was deleted before its child was accepted",
        "a value was freed while a fork was on its way",
    ]


@pytest.mark.parametrize(
    ("left_out", "ids", "breach"),
    [
        (tracing.CHILD_PENDING, (UWES,), "a fork nobody announced"),
        (tracing.FORK_ADDED, (RREF, UWES), "a user confirmed that its owner does not know"),
    ],
)
def test_every_step_of_a_fork_is_needed(
    left_out: EventType, ids: tuple[Any, ...], breach: str
) -> None:
    assert breach in tell(without(SHARED, left_out, *ids))[1]


def test_nothing_happens_twice() -> None:
    assert tell([*CREATED, CREATED[2]])[1] == ["a fork was registered twice"]
    assert tell([*CREATED, CREATED[4]])[1] == ["a value was set twice"]
    deleted = (ULLA, tracing.USER_DELETED, (RREF, ULLAS))
    assert tell([*CREATED, deleted, deleted])[1] == ["a fork was deleted twice"]
    assert tell([*SHARED, *GONE, GONE[1]])[1] == ["a fork was deleted that is not known"]


#: after so many events of SHARED: what comes next, and what is wrong with that
OUT_OF_TURN: list[tuple[int, list[Told], str]] = [
    (3, [SHARED[9]], "a fork of a value without an owner"),
    (7, [(OLGA, tracing.FORK_ADDED, (RREF, UWES))], "a fork was registered before its user"),
    (
        7,
        [(UWE, tracing.USER_CREATED, (RREF, UWES, OLGA, OLGA))],
        "a user of another owner or parent",
    ),
    (10, [SHARED[11]], "a child accepted that its owner has not confirmed"),
    (12, [*GONE[:4], GONE[3]], "a value was kept after its last fork"),
    (5, [(OLGA, tracing.OWNER_FAILED, (RREF, "late"))], "a creation failed that was over"),
    (4, [(OLGA, tracing.OWNER_PENDING, (RREF,))], "a value was waited for in vain"),
    (6, [(ULLA, tracing.USER_DISCARDED, (RREF, ULLAS))], "the order of a user's stages"),
]


@pytest.mark.parametrize(("after", "events", "breach"), OUT_OF_TURN)
def test_an_event_comes_in_its_turn(after: int, events: list[Told], breach: str) -> None:
    assert tell([*SHARED[:after], *events])[1][0] == breach


def test_an_owner_without_a_value_waits_for_its_creation() -> None:
    told_of: list[Told] = [*CREATED[:2], SHARED[6], (OLGA, tracing.OWNER_CREATED, (RREF,)), GONE[4]]
    failed = (OLGA, tracing.OWNER_FAILED, (RREF, "lost"))
    assert tell([*told_of, failed])[1] == []
    assert tell([*told_of, CREATED[2]])[1][0] == "an owner that waits for its creation was freed"


def test_a_pending_user_is_kept() -> None:
    deleted = (ULLA, tracing.USER_DELETED, (RREF, ULLAS))
    assert tell([*CREATED[:2], deleted])[1] == ["a user was deleted before its owner confirmed it"]


def test_a_creation_that_failed_may_be_dropped_at_once() -> None:
    story = [
        *CREATED[:2],
        (ULLA, tracing.USER_TIMED_OUT, (RREF, ULLAS)),
        (ULLA, tracing.USER_CONFIRMED, (RREF, ULLAS)),
        (ULLA, tracing.USER_DELETED, (RREF, ULLAS)),
    ]
    protocol, breaches = tell(story)
    assert breaches == []
    assert list(protocol.left()) == []


def test_a_reference_that_comes_home_is_no_user() -> None:
    home = (ULLA, 3)
    story = [
        *CREATED,
        (ULLA, tracing.CHILD_PENDING, (RREF, ULLAS, home)),  # sent to Olga, who has the value
        (ULLA, tracing.CHILD_ACCEPTED, (home,)),
        *GONE[:2],
        GONE[-1],
    ]
    protocol, breaches = tell(story)
    assert breaches == []
    assert list(protocol.left()) == []


def test_whoever_fetches_gets_the_same() -> None:
    fetched = (OLGA, tracing.RREF_FETCHED, (RREF, None))
    failed = (OLGA, tracing.RREF_FETCHED, (RREF, "ValueError"))
    assert tell([*CREATED, fetched, fetched])[1] == []
    assert tell([*CREATED, fetched, failed])[1] == ["fetches disagree"]


def test_a_function_waits_for_its_arguments() -> None:
    handling: list[Told] = [
        (UWE, tracing.HANDLER_STARTED, (ULLA, "PYTHON_CALL", 7)),
        *[told for told in SHARED if told[0] == UWE][:2],
    ]
    runs = (UWE, tracing.UDF_STARTED, ("double",))
    resumed = (UWE, tracing.HANDLER_RESUMED, (ULLA, "PYTHON_CALL", 7))
    confirmed = SHARED[9:11]
    early = "a function ran before its arguments were confirmed"
    before = [*CREATED, SHARED[6]]
    assert tell([*before, *handling, runs])[1] == [early]
    assert tell([*before, *handling, resumed, runs])[1] == [early]
    assert tell([*before, *handling, *confirmed, resumed, runs])[1] == []


# -- creations that are given up ------------------------------------------------------------------

CREATING = (7, OLGA, "PYTHON_REMOTE_CALL", 60.0, (RREF, ULLAS))
ASKED: list[Told] = [
    (ULLA, tracing.CALL_STARTED, CREATING),
    (OLGA, tracing.HANDLER_STARTED, (ULLA, "PYTHON_REMOTE_CALL", 7)),
    (OLGA, tracing.UDF_STARTED, ("slow",)),
    (OLGA, tracing.OWNER_FAILED, (RREF, "its creator gave up")),
    (OLGA, tracing.HANDLER_ENDED, (ULLA, "PYTHON_REMOTE_CALL", 7, None)),
]


def given_up(*story: Told) -> list[str]:
    records: list[Record] = [(0.0, worker, 1, type, values) for worker, type, values in story]
    found = named_property("rrefs").check(Run(records, workers=2))
    return [violation.what for violation in found]


def test_a_creation_is_not_given_up_while_its_function_is_at_work() -> None:
    called, taken, begun, failed, ended = ASKED
    assert given_up(*ASKED) == ["a creation was given up while it was at work"]
    assert given_up(called, failed, taken, begun, ended) == []  # it had not come
    assert given_up(called, taken, failed, begun, ended) == []  # it was not read yet
    assert given_up(called, taken, begun, ended, failed) == []
