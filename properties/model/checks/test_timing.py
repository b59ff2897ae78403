"""Resends, limits and moments at which something happens: on time, and each for a reason."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from squall.model.checks.registry import named_property
from squall.model.events.digest import Record
from squall.model.events.resends import delay_s
from squall.model.events.run import Run
from squall.model.events.run_parts import RunConditions
from squall.properties.support.planted import first_said
from squall.real import tracing
from squall.real.rpc.retries import retry_delay_s

ABOUT = ((0, 1), (0, 2))
TIMING = named_property("timing")


def test_the_table_is_that_of_the_protocol() -> None:
    assert [delay_s(copy) for copy in range(6)] == [1.0, 1.0, 1.5, 2.25, 3.375, 5.0625]
    # Of the 20 that follow the first message of a release: about 4.4 thousand seconds.
    assert 4_400 < sum(delay_s(copy) for copy in range(20)) < 4_500
    assert [retry_delay_s(copy) for copy in range(20)] == [delay_s(copy) for copy in range(20)]


def deletions(*times_s: float, answered_s: float | None = None, quiet_s: float = 99.0) -> Run:
    """A run in which worker 0 tells worker 1 of a deletion at these times."""
    records: list[Record] = []
    for id, time_s in enumerate(times_s):
        if id:
            records.append((time_s, 0, 1, tracing.CALL_RETRIED, (1, "RREF_USER_DELETE", id, 0.0)))
        started = (id, 1, "RREF_USER_DELETE", 60.0, ABOUT)
        records.append((time_s, 0, 1, tracing.CALL_STARTED, started))
    if answered_s is not None:
        ended = (len(times_s) - 1, 1, "ok")
        records.append((answered_s, 0, 1, tracing.CALL_ENDED, ended))
    records.append((quiet_s, 0, 1, tracing.TABLES_COUNTED, (0,) * 8))
    records.sort(key=lambda record: record[0])
    return Run(records, workers=2, conditions=RunConditions(rpc_timeout_s=60.0))


def said(run: Run) -> list[str]:
    return [violation.what for violation in TIMING.check(run)]


ALL = tuple(itertools.accumulate([0.0, 1.0, 1.0, 1.5, 2.25, 3.375]))


@pytest.mark.parametrize("copies", range(1, 7))
def test_copies_at_their_times_are_right(copies: int) -> None:
    assert said(deletions(*ALL[:copies], answered_s=ALL[copies - 1] + 0.5)) == []


def test_five_more_are_enough() -> None:
    assert said(deletions(*ALL)) == []
    assert said(deletions(*ALL[:5])) == ["a RREF_USER_DELETE was not sent again"]


@pytest.mark.parametrize("late_s", [-0.5, -0.001, 0.001, 0.5, 20.0])
def test_a_copy_at_another_time_is_wrong(late_s: float) -> None:
    run = deletions(0.0, 1.0, 2.0 + late_s, answered_s=30.0)
    assert "a RREF_USER_DELETE was sent again at another time" in said(run)


def test_a_copy_after_the_answer_is_wrong() -> None:
    run = deletions(0.0, 1.0, answered_s=1.5)
    ended = (0.5, 0, 1, tracing.CALL_ENDED, (0, 1, "ok"))
    run.records = sorted([*run.records, ended], key=lambda record: record[0])
    assert said(run) == ["a RREF_USER_DELETE was sent again after its answer"]


def test_what_the_run_does_not_live_to_see_need_not_be_sent() -> None:
    assert said(deletions(0.0, quiet_s=0.9)) == []
    assert said(deletions(0.0, quiet_s=1.1)) == ["a RREF_USER_DELETE was not sent again"]


def limited(type: str, limit_s: float, took_s: float, outcome: str, *before: Record) -> list[str]:
    records: list[Record] = [
        *before,
        (0.0, 0, 1, tracing.CALL_STARTED, (1, 1, type, limit_s, ())),
        (took_s, 0, 1, tracing.CALL_ENDED, (1, 1, outcome)),
    ]
    return said(Run(records, workers=2, conditions=RunConditions(rpc_timeout_s=60.0)))


def test_control_messages_have_the_default_limit() -> None:
    assert limited("BACKWARD_AUTOGRAD_REQ", 60.0, 1.0, "ok") == []
    assert limited("BACKWARD_AUTOGRAD_REQ", 0.0, 1.0, "ok") == [
        "the limit of a BACKWARD_AUTOGRAD_REQ"
    ]
    assert limited("PYTHON_CALL", 0.0, 1.0, "ok") == []
    changed: Record = (0.0, 0, 1, tracing.TIMEOUT_SET, (7.0,))
    assert limited("BACKWARD_AUTOGRAD_REQ", 7.0, 1.0, "ok", changed) == []
    assert limited("BACKWARD_AUTOGRAD_REQ", 60.0, 1.0, "ok", changed) == [
        "the limit of a BACKWARD_AUTOGRAD_REQ"
    ]


def test_a_limit_is_not_over_before_its_time() -> None:
    assert limited("PYTHON_CALL", 2.0, 2.0, "timeout") == []
    assert limited("PYTHON_CALL", 2.0, 1.9, "timeout") == ["a call timed out before its time"]
    assert limited("PYTHON_CALL", 0.0, 60.0, "timeout") == ["a call timed out before its time"]
    refused: Record = (1.0, 1, 1, tracing.MESSAGE_DELIVERED, (5, 1, 0, "EXCEPTION", 1, 0.1))
    assert limited("PYTHON_CALL", 2.0, 1.9, "timeout", refused) == []


@pytest.mark.parametrize(
    ("place", "old", "new", "faults", "what"),
    [
        (
            "rpc.rref_users:UserTables.schedule_del_user",
            "call_later(0.0",
            "call_later(0.25",
            "",
            "something happened for no reason",
        ),
        (
            "rpc.retries:retry_delay_s",
            "max(number - 1, 0)",
            "number",
            "rough",
            "sent again at another time",
        ),
        (
            "rpc.retries:Retried._schedule",
            "sent_at + retry_delay_s(number) - runtime.now()",
            "retry_delay_s(number)",
            "rough",
            "sent again at another time",
        ),
    ],
)
def test_a_planted_bug_is_told(place: str, old: str, new: str, faults: str, what: str) -> None:
    found: list[Any] = first_said("timing", place, old, new, faults=faults)
    assert any(what in violation.what for violation in found)


def test_of_two_that_began_at_once_the_unanswered_one_is_sent_again() -> None:
    run = deletions(0.0, 1.0, answered_s=1.5)
    other = (0.0, 0, 1, tracing.CALL_STARTED, (9, 1, "RREF_USER_DELETE", 60.0, ABOUT))
    ended = (0.5, 0, 1, tracing.CALL_ENDED, (0, 1, "ok"))
    run.records = sorted([*run.records, other, ended], key=lambda record: record[0])
    assert said(run) == []
