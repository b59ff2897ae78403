"""Plays tests on either engine, and says what came of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from squall.properties.conformance.pool import play_all
from squall.properties.conformance.stock import play_all_native
from squall.properties.conformance.table import (
    NOT_APPLICABLE,
    NOT_APPLICABLE_STAND_IN,
    NOT_APPLICABLE_TORCH,
    NOT_PLAYED,
)
from squall.properties.conformance.tests import Played, Result, Test, Verdict
from squall.sim.world.stand_in import STAND_IN_NAME

#: what does not apply, by device; on a GPU everything does, as far as there are enough of them
TABLES: Mapping[str, Mapping[str, str]] = {
    "cpu": NOT_APPLICABLE,
    "stand-in": NOT_APPLICABLE_STAND_IN,
    "cuda": {},
}


def run(tests: Iterable[Test], *, jobs: int = 1, engine: str = "port") -> Iterator[Result]:
    """Play each test on a cluster of its own, ``jobs`` at a time; results as they come.

    On the engine ``torch`` it is one at a time, whatever ``jobs`` says.
    """
    if engine == "torch":
        for test, played in play_all_native(list(tests)):
            yield judge(test, played, NOT_APPLICABLE_TORCH)
        return
    to_play = []
    for test in tests:
        if test.device == STAND_IN_NAME and test.id in NOT_PLAYED:
            yield Result(test, "not_applicable", NOT_APPLICABLE_STAND_IN[test.id], "", 0.0)
        else:
            to_play.append(test)
    for test, played in play_all(to_play, jobs=jobs):
        yield judge(test, played, TABLES[test.device])


def judge(test: Test, played: Played, table: Mapping[str, str] | None = None) -> Result:
    """The verdict: the table excuses a test that did not pass, never one that did."""
    reason = (NOT_APPLICABLE if table is None else table).get(test.id)
    verdict: Verdict
    if reason is not None:
        verdict, why = "not_applicable", reason
        if played.outcome == "passed":
            verdict, why = "failed", f"passes, but the table calls it not applicable: {reason}"
    elif played.outcome == "passed":
        verdict, why = "passed", ""
    elif played.outcome == "skipped" and (test.device == "cuda" or test.owner.skips_itself):
        # It needs more devices, or another backend or number of ranks, as it says itself.
        verdict, why = "not_applicable", played.why
    elif played.outcome == "skipped":
        verdict, why = "failed", f"skips itself, and the table does not say why: {played.why}"
    else:
        verdict, why = "failed", played.why
    return Result(test, verdict, why, played.log, played.seconds)
