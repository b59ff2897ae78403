"""What is told and drawn of measured entries; nothing is measured here, and no time is asserted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import history, turns

ROWS = {"backward, times torch": 1.2, "a message, us": 0.8, "over TensorPipe": None}


def entry(commit: str, against: str = turns.FIXED, **ratios: float | None) -> dict[str, Any]:
    rows = {row: {"now": 2.0, "ratio": ratio} for row, ratio in (ROWS | ratios).items()}
    about = {"commit": commit, "date": "2026-11-30 12:00", "machine": "2 cores", "load": 0.5}
    return {**about, "against": against, "rows": rows}


def with_messages(*ratios: float) -> list[dict[str, Any]]:
    return [entry(f"c{at}", **{"a message, us": ratio}) for at, ratio in enumerate(ratios)]


def test_a_ratio_that_falls_by_a_tenth_is_told() -> None:
    (line,) = history.falls(with_messages(1.0, 0.89))
    assert line.startswith("a message, us: 0.89 times as fast as")
    assert line.endswith("11% less than the 1.00 of c0, at a load of 0.5")


@pytest.mark.parametrize(
    "ratios",
    [
        (1.0,),  # nothing to compare with
        (1.0, 0.91),
        (1.0, 1.0, 1.5, 0.95),  # one entry that was lucky
        (2.0, 2.0, *[1.0] * history.LAST, 1.0),  # told long ago
    ],
)
def test_nothing_else_is(ratios: tuple[float, ...]) -> None:
    assert history.falls(with_messages(*ratios)) == []


def test_what_falls_a_little_each_time_is_told_in_the_end() -> None:
    assert [
        len(history.falls(with_messages(*(1.0, 0.97, 0.94, 0.91, 0.86)[:n]))) for n in (4, 5)
    ] == [0, 1]


def test_rows_are_compared_with_those_beside_the_same_commit() -> None:
    assert history.falls([entry("a", "another", **{"a message, us": 2.0}), entry("b")]) == []
    assert history.falls([entry("a"), entry("b", **{"a new row": 1.0})]) == []


def test_an_entry_is_kept_drawn_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, page = tmp_path / "history.json", tmp_path / "build" / "bench.html"
    monkeypatch.setattr(history, "KEPT", kept)
    monkeypatch.setattr(history, "PAGE", page)
    for made in (entry("a"), entry("b"), entry("b", **{"a message, us": 0.5})):
        monkeypatch.setattr(history, "measured", lambda of, made=made: made)
        assert history.main([]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [each["commit"] for each in json.loads(kept.read_text(encoding="utf-8"))] == ["a", "b"]
    assert said[-1].startswith("FALLEN: a message, us: 0.50 times as fast")
    assert "FALLEN" not in "".join(said[:-1]) and "over TensorPipe: 2" in said
    assert "less than the 0.80 of a" in page.read_text(encoding="utf-8")


def test_a_commit_that_there_is_not_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert history.main(["--of", "no such commit"]) == 2
    said = capsys.readouterr()
    assert "nothing is measured: " in said.err and not said.out


def test_what_is_kept_can_be_read() -> None:
    entries = json.loads(history.KEPT.read_text(encoding="utf-8"))
    assert entries and all(set(each) == set(entry("a")) for each in entries)
