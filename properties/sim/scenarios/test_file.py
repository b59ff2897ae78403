"""Scenario files: what they hold, and what is told about one that is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.properties.strategies import programs
from squall.sim.faults.plan import Delay, Drop, Plan, Schedule
from squall.sim.scenario import Expected, Scenario, Script, World
from squall.sim.scenarios.file import (
    ScenarioError,
    dump_scenario,
    load_scenario,
    name_of,
    scenario_from_json,
    scenario_to_json,
)
from squall.sim.search.draw import Settings, draw

SAVED = draw(3).in_world(
    faults=Plan(messages=(Drop(types=("PYTHON_CALL",), src=0, nth=(1,)),)),
)
SCRIPT = Scenario(work=Script(path="train.py", text="print(1)\n", workers=2), seed=2**64 - 1)


@pytest.mark.parametrize("saved", [SAVED, SCRIPT], ids=["program", "script"])
def test_a_file_says_it_all(saved: Scenario, tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(dump_scenario(saved), encoding="utf-8")
    assert load_scenario(path) == saved


@given(programs(), st.integers(0, 2**64 - 1), st.booleans(), st.booleans())
def test_any_program_survives(
    program: Any, seed: int, shut_down_early: bool, skip_handshakes: bool
) -> None:
    saved = Scenario(
        work=program,
        seed=seed,
        world=World(
            latency="uniform:0.001:0.002",
            bandwidth_bytes_per_s=1e6,
            faults=Plan(
                messages=(Delay(seconds=0.1, probability=0.5, id=1),),
                schedule=Schedule(late=((3, 0.5),), yields=(7,)),
            ),
            shut_down_early=shut_down_early,
            skip_handshakes=skip_handshakes,
        ),
        expected=Expected(digest="0" * 32, outcome="failed", property="rrefs", what="x"),
    )
    assert load_scenario(dump_scenario(saved)) == saved


@pytest.mark.parametrize("profile", [None, "mild", "rough", "storm"])
def test_scenarios_of_campaigns_come_back(profile: str | None) -> None:
    for seed in range(20):
        scenario = draw(seed, Settings(profile))
        assert load_scenario(dump_scenario(scenario)) == scenario


def test_a_program_alone_is_a_scenario() -> None:
    data = json.loads(dump_scenario(SAVED))["program"]
    assert load_scenario(json.dumps(data)) == Scenario(work=SAVED.work)


def test_the_name_is_that_of_the_run() -> None:
    """What a run is expected to come to does not change what it is; a planted bug does."""
    assert name_of(SAVED) == name_of(replace(SAVED, expected=Expected(digest="x"), note="y"))
    assert name_of(SAVED) != name_of(replace(SAVED, seed=SAVED.seed + 1))
    assert name_of(SAVED) != name_of(replace(SAVED, expected=Expected(mutant="release-only-here")))


def changed(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.update(changes)


def at(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: Any) -> None:
        for part in path[:-1]:
            data = data[part]
        data[path[-1]] = value

    return change


OP = ("program", "trainers", 0, "steps", 0, "ops", 0)
IN_OP = "program.trainers[0].steps[0].ops[0]"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            changed(version=99),
            "scenario.version: 99 is not supported; this squall reads version 1 and 2",
        ),
        (changed(version="1"), "scenario.version: '1' is not supported"),
        (changed(version=True), "scenario.version: True is not supported"),
        (changed(colour=1), "scenario.colour: is no field of a scenario"),
        (changed(seed="7"), "scenario.seed: '7' is wrong: should be a valid integer"),
        (changed(seed=-1), "scenario.seed: -1 is wrong: should be greater than or equal to 0"),
        (
            at("world", "shut_down_early", value=1),
            "scenario.world.shut_down_early: 1 is wrong: should be a valid boolean",
        ),
        (
            at("world", "skip_handshakes", value="no"),
            "scenario.world.skip_handshakes: 'no' is wrong: should be a valid boolean",
        ),
        (
            at("world", "device", value="tpu"),
            "scenario.world.device: 'tpu' is wrong: should be 'cpu', 'cuda' or 'stand-in'",
        ),
        (
            changed(engine="diesel"),
            "scenario.engine: 'diesel' is wrong: should be 'port' or 'torch'",
        ),
        (
            at("world", "rpc_timeout_s", value=-1.0),
            "scenario.world.rpc_timeout_s: -1.0 is wrong: should be greater than or equal to 0",
        ),
        (at("world", "latency", value="soon"), "scenario.world.latency: 'soon' is wrong"),
        (at("world", "latency", value=1), "scenario.world.latency: 1 is wrong"),
        (at("world", "speed", value=1), "scenario.world.speed: is no field of a scenario"),
        (
            at("world", "bandwidth_bytes_per_s", value=0.0),
            "scenario.world.bandwidth_bytes_per_s: 0.0 is wrong: should be greater than 0",
        ),
        (changed(program=None), "has neither a program nor a script"),
        (changed(script={"path": "a", "text": ""}), "has both a program and a script"),
        (at("program", "version", value=99), "program.version: 99 is not supported"),
        (at(*OP, "worker", value=9), f"{IN_OP}.worker: 9 is not one of the"),
        (at(*OP, "worker", value="0"), f"{IN_OP}.worker: '0' is wrong: should be a valid integer"),
        (at(*OP, "colour", value=1), f"{IN_OP}.colour: is no field of a program"),
        (at(*OP, "kind", value="nonsense"), f"{IN_OP}.kind: 'nonsense' is no operation"),
        (at(*OP, "inputs", value=[{"back": 0}]), f"{IN_OP}.inputs"),
        (at(*OP, "inputs", value=[{"back": -1}]), f"{IN_OP}.inputs"),
        (at("world", "faults", value={"version": 7}), "faults.version: 7 is not supported"),
        (at("world", "faults", value={"rain": []}), "faults.rain: is no field of a fault plan"),
        (
            at("world", "faults", value={"messages": [{"kind": "drop", "dst": 9}]}),
            f"faults.messages[0].dst: 9 is not one of the {SAVED.workers} workers",
        ),
        (
            at("world", "faults", value={"messages": [{"kind": "eat"}]}),
            "faults.messages[0].kind: 'eat'",
        ),
        (at("world", "faults", value=[]), "faults: is not an object"),
    ],
)
def test_a_wrong_file_names_the_place(
    change: Callable[[dict[str, Any]], None], message: str
) -> None:
    data = json.loads(dump_scenario(SAVED))
    change(data)
    with pytest.raises(ValueError) as caught:
        load_scenario(json.dumps(data))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_value_cannot_use_itself() -> None:
    data = json.loads(dump_scenario(SAVED))
    op = data["program"]["trainers"][0]["steps"][0]["ops"][0]
    op["inputs"] = [{**each, "back": 0} for each in op["inputs"]]
    with pytest.raises(ValueError, match="an operation cannot use itself or a later one"):
        load_scenario(json.dumps(data))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "scenario: is not JSON: Expecting value in line 1, column 1"),
        (dump_scenario(SAVED)[:200], "scenario: is not JSON: "),
        ("[]", "scenario: is not an object"),
        ("[" * 100_000, "scenario: is not JSON: nested too deeply"),
        ('{"seed": 1, "seed": 2}', "scenario: the name 'seed' is there twice in one object"),
        ('{"seed": NaN}', "scenario: is not JSON: NaN is no number of JSON"),
        (f'{{"seed": {"9" * 5000}}}', "scenario: is not JSON: "),
        ('{"seed": 1}', "scenario: has neither a program nor a script"),
    ],
)
def test_a_broken_file_is_told_so(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        load_scenario(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ({"path": "a.py"}, "scenario.script.text: is missing"),
        ({"path": "a.py", "text": "def"}, "scenario.script.text: is no Python script"),
        ({"path": "a.py", "text": "", "workers": 0}, "scenario.script.workers: 0 is wrong"),
    ],
)
def test_a_wrong_script_is_told_so(script: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="scenario") as caught:
        load_scenario(json.dumps({"version": 1, "script": script}))
    assert message in str(caught.value)


@pytest.mark.parametrize("field", ["shut_down_early", "skip_handshakes"])
def test_how_a_group_begins_and_ends_is_for_programs(field: str) -> None:
    script = {"path": "a.py", "text": ""}
    with pytest.raises(ValueError, match=rf"scenario\.world\.{field}: is for a program"):
        load_scenario(json.dumps({"script": script, "world": {field: True}}))


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="scenario: is not UTF-8 text"):
        load_scenario(path)


@pytest.mark.parametrize(
    ("engine", "world", "problem"),
    [
        (
            "port",
            {"links": "latency=5us"},
            "scenario.world.links: is for scripts on the engine torch",
        ),
        (
            "torch",
            {"algorithms": "all_reduce=tree"},
            "scenario.world.algorithms: needs scenario.world.links",
        ),
        ("torch", {"links": "latency=soon"}, "'soon' is no duration"),
    ],
)
def test_costs_of_links_are_for_scripts_on_torch(
    engine: str, world: dict[str, str], problem: str
) -> None:
    data = {"version": 2, "seed": 1, "engine": engine, "script": {"path": "a.py", "text": "1"}}
    with pytest.raises(ScenarioError, match=re.escape(problem)):
        scenario_from_json({**data, "world": world})
    good = {"links": "latency=5us;0-1:latency=1ms", "algorithms": "reduce=tree"}
    there = {**data, "engine": "torch", "world": good}
    assert scenario_to_json(scenario_from_json(there))["world"] == good
