"""What campaigns have seen is kept when they are asked for it, and read again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from squall.properties.support.commands import squall
from squall.sim.search.histories import kept_histories


def test_a_campaign_with_stats_keeps_what_it_has_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path))
    words = ("fuzz", "--seeds", "3:23", "--faults", "rough")
    report = json.loads(squall(*words, "--json").stdout)
    assert kept_histories() == [], "only if it is asked for"
    done = squall(*words, "--stats")
    (kept,) = kept_histories()
    assert f"{kept.name}.json" in done.stderr
    history = kept.history
    assert history.title == "seeds 3:23, rough"
    assert history.parts == {"corpus": 0, "cover": report["cover"], "seeds": 20}
    assert {name: counts[-1] for name, counts in history.sets.items()} == report["coverage"]
    assert history.reached == report["reached"] and history.times == report["sometimes"]
    assert any(history.reached.values())
