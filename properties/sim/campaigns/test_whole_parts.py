"""Parts that are done whole: stories with numbers, and scenario files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from squall.properties.support.paths import CORPUS
from squall.sim.campaigns.file import load_plan
from squall.sim.campaigns.parts import Part, Saved, part_of
from squall.sim.campaigns.parts.saved import saved_in
from squall.sim.campaigns.row import Row
from squall.sim.campaigns.triage import shown
from squall.sim.scenarios.file import dump_scenario, load_scenario
from squall.sim.search.mutants.registry import MUTANTS


def rows(part: Part, numbers: range | None = None) -> list[Row]:
    return list(part.rows(part.seeds if numbers is None else numbers, lambda: None))


def parts_of(folder: Path, text: str) -> tuple[Part, ...]:
    file = folder / "campaign.toml"
    file.write_text(text, encoding="utf-8")
    parts = load_plan(file).parts
    for part in parts:
        assert part_of(json.loads(json.dumps(part.said()))) == part
    return parts


def test_stories_need_no_share_and_no_number_of_scenarios(tmp_path: Path) -> None:
    port, torch = parts_of(
        tmp_path,
        "[parts.stories]\n[parts.compiled]\nkind = 'stories'\nengine = 'torch'\n",
    )
    assert (port.kind, port.engines, torch.engines) == ("stories", ("port",), ("torch",))
    assert len(port.seeds) > len(torch.seeds) > 100, "some are for the port alone"
    found = rows(port, range(5))
    assert [row.property for row in found] == [""] * 5
    assert found == rows(port, range(2)) + rows(port, range(2, 5))
    assert port.name_of(
        0
    ) == "gathers (1, 1, 0) to worker 0 of 1" or " to worker 0 of 1" in port.name_of(0)


def test_a_story_that_fails_is_a_scenario_to_be_replayed(tmp_path: Path) -> None:
    (part,) = parts_of(tmp_path, "[parts.stories]\n")
    with MUTANTS["release-only-here"].apply():
        failed = [row for row in rows(part, range(40)) if row.property]
        assert failed
        scenario = part.scenario(failed[0])
        assert scenario is not None and part.again(failed[0]) is None
        assert shown(scenario, (failed[0].property, failed[0].what, failed[0].place)) is not None


def corpus_in(folder: Path) -> Saved:
    names = ("fault_drop", "mutant_delete-not-sent")
    for name in names:
        (folder / f"{name}.json").write_text(
            (CORPUS / f"{name}.json").read_text(encoding="utf-8"), encoding="utf-8"
        )
    (part,) = parts_of(folder, "[parts.saved]\nfiles = ['*.json', 'fault_*.json']\n")
    assert isinstance(part, Saved)
    assert part.files == tuple(f"{name}.json" for name in names), "each once"
    return part


def test_a_file_that_does_not_come_to_what_it_says_fails(tmp_path: Path) -> None:
    part = corpus_in(tmp_path)
    good = rows(part)
    assert [row.property for row in good] == ["", ""]
    bug = tmp_path / "mutant_delete-not-sent.json"
    saved = load_scenario(bug)
    bug.write_text(
        dump_scenario(replace(saved, expected=replace(saved.expected, what="no such"))),
        encoding="utf-8",
    )
    assert {row.property for row in rows(part)} == {"files"}, "it is not the one of the plan"
    (well, failed) = rows(saved_in("saved", tmp_path, ["*.json"]))
    assert well == good[0]
    assert (failed.property, failed.what) == ("saved", bug.name)
    assert failed.text.startswith("saved: it does not show: expected rrefs: no such, seen ")
    assert part.scenario(failed) is None
    assert str(part.again(failed)).endswith(bug.name)


def test_a_defect_of_the_port_shows_in_its_files(tmp_path: Path) -> None:
    part = corpus_in(tmp_path)
    with MUTANTS["release-only-here"].apply():
        assert {row.property for row in rows(part)} == {"saved"}


def test_own_files_are_found_wherever_the_checkout_is() -> None:
    part = saved_in("saved", CORPUS, ["fault_drop.json"])
    assert (part.root, part.files) == ("", ("properties/corpus/fault_drop.json",))
    assert part.engines == ("port",)


@pytest.mark.parametrize("name", ["varies", "no scenario"])
def test_files_that_are_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.json").write_text(
        (CORPUS / "fault_drop.json").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (tmp_path / "b.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="b.json" if name == "varies" else "scenario"):
        saved_in("saved", tmp_path, ["*.json"] if name != "varies" else ["a.json"], ["b.json"])
