"""Runs as paths of the model: Olga is the owner, Ulla creates, Uwe gets a reference."""

from __future__ import annotations

from typing import Any

import pytest

from squall.model.protocol.passes.not_allowed import NotAllowedError
from squall.properties.model.protocol.replay import Replay
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
SENT: Told = (ULLA, tracing.CHILD_PENDING, (RREF, ULLAS, UWES))
SHARED: list[Told] = [
    *CREATED,
    SENT,
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


def told(story: list[Told]) -> Replay:
    replay = Replay()
    for worker, type, values in story:
        replay.take(worker, type, values)
    replay.finish()
    return replay


def refused(story: list[Told]) -> tuple[int, str]:
    """Which event of a story is no step, and why."""
    replay = Replay()
    for number, (worker, type, values) in enumerate(story):
        try:
            replay.take(worker, type, values)
        except NotAllowedError as error:
            return number, str(error)
    with pytest.raises(NotAllowedError) as error_:
        replay.finish()
    return len(story), str(error_.value)


def test_the_tables_follow_the_events() -> None:
    # owners, forks, pending users, pending children, pending owners, confirmed users
    assert told(CREATED).tables(OLGA) == (1, 1, 0, 0, 0, 0)
    assert told(CREATED).tables(ULLA) == (0, 0, 0, 0, 0, 1)
    assert told(SHARED[:9]).tables(ULLA) == (0, 0, 0, 1, 0, 1)
    assert told(SHARED[:9]).tables(UWE) == (0, 0, 1, 0, 0, 0)
    assert told(SHARED).tables(OLGA) == (1, 2, 0, 0, 0, 0)
    for worker in (OLGA, ULLA, UWE):
        assert told(SHARED + GONE).tables(worker) == (0,) * 6


@pytest.mark.parametrize("number", range(len(SHARED)))
def test_no_event_of_a_shared_reference_can_be_left_out_but_the_value(number: int) -> None:
    story = [*SHARED[:number], *SHARED[number + 1 :], *GONE]
    if SHARED[number][1] is tracing.OWNER_VALUE_SET:
        told(story)
        return
    refused(story)


def test_an_acceptance_needs_an_introduction() -> None:
    early = [*SHARED[:9], SHARED[11]]
    number, why = refused(early)
    assert number == 9
    assert "accept_arrives" in why and "PENDING" in why


def test_a_parent_goes_after_its_child_is_accepted() -> None:
    number, why = refused([*SHARED[:11], GONE[0]])
    assert number == 11
    assert "drop" in why


def test_the_last_fork_takes_the_value_along() -> None:
    kept = [*SHARED, *GONE[:4], (ULLA, tracing.USER_CREATED, (RREF, (9, 9), OLGA, ULLA))]
    assert refused(kept)[1] == ("expected owner_deleted of (1, 0) now, seen user_created of (1, 0)")
    early = [*SHARED, *GONE[:2], GONE[4]]
    assert refused(early)[0] == len(early) - 1


def test_a_fork_that_comes_home_is_told_by_its_acceptance() -> None:
    replay = told([*CREATED, SENT, (ULLA, tracing.CHILD_ACCEPTED, (UWES,))])
    assert replay.tables(ULLA) == (0, 0, 0, 0, 0, 1)
    assert replay.references[RREF].handle


def test_an_owner_is_told_before_the_creation_comes() -> None:
    story: list[Told] = [
        *CREATED[:2],
        SENT,
        (OLGA, tracing.OWNER_CREATED, (RREF,)),
        (ULLA, tracing.CHILD_ACCEPTED, (UWES,)),
    ]
    assert told(story).tables(OLGA) == (1, 0, 0, 0, 0, 0)
    assert told([*story, CREATED[2], CREATED[5]]).tables(OLGA) == (1, 1, 0, 0, 0, 0)
    # Its creator gives the creation up, which the owner hears of.
    gave_up: list[Told] = [
        *story,
        (ULLA, tracing.USER_TIMED_OUT, (RREF, ULLAS)),
        (ULLA, tracing.USER_CONFIRMED, (RREF, ULLAS)),
        (ULLA, tracing.USER_DELETED, (RREF, ULLAS)),
        (OLGA, tracing.OWNER_DELETED, (RREF,)),
        (OLGA, tracing.OWNER_FAILED, (RREF, "timed out")),
    ]
    assert told(gave_up).tables(OLGA) == (0,) * 6


def test_a_creation_on_the_owner_itself_is_a_reference_to_oneself() -> None:
    own = (OLGA, 0)
    story: list[Told] = [
        (OLGA, tracing.OWNER_CREATED, (own,)),
        (OLGA, tracing.FORK_ADDED, (own, own)),
        (OLGA, tracing.OWNER_VALUE_SET, (own, None)),
        (OLGA, tracing.FORK_DELETED, (own, own)),
        (OLGA, tracing.OWNER_DELETED, (own,)),
    ]
    assert told(story[:3]).tables(OLGA) == (1, 1, 0, 0, 0, 0)
    assert told(story).tables(OLGA) == (0,) * 6
