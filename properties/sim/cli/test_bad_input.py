"""Wrong values everywhere: one line that names the field and says what would be right, exit 2.

Every field of scenario and plan files, and every option that takes a value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from squall.sim.cli.main import main as run_command
from squall.sim.faults.file import PlanError, load_plan, plan_to_json
from squall.sim.faults.plan import GROUPS
from squall.sim.scenario import Scenario
from squall.sim.scenarios.file import load_scenario, scenario_to_json

# -- files ----------------------------------------------------------------------------------------

#: whatever the field is, most of these are wrong for it
WRONG: tuple[Any, ...] = (None, True, "no such", "", -1, 0, 0.5, 1e308, 10**40, [], {}, [[]])
HUGE = "1" * 5000


def full_plan() -> dict[str, Any]:
    """A plan with every kind of fault, every field of each written out."""
    said: dict[str, Any] = {"version": 1, "begin": "ready", "heal_s": 1.0}
    said["schedule"] = {"order": "fifo", "late": [[3, 0.5]], "yields": [7], "timeless": False}
    said["schedule"] |= {"depth": 3, "steps": 100}
    ids = count(1)
    for group, kinds in GROUPS.items():
        said[group] = []
        for kind, item in kinds.items():
            values: dict[str, Any] = {"kind": kind}
            for field in fields(item):
                values[field.name] = _example(field.name, kind, next(ids))
            said[group].append({k: v for k, v in values.items() if v is not ...})
    return said


def _example(name: str, kind: str, id: int) -> Any:
    selector = {"types": ["PYTHON_CALL"], "src": 0, "dst": 1, "direction": "any", "nth": [1]}
    moment = {"event": "pass_started", "worker": 0, "nth": 1}
    known: dict[str, Any] = {
        "kind": kind, "types": ["PYTHON_CALL"], "src": 0, "dst": 1, "direction": "any",
        "nth": 1 if kind in ("allocation", "raise") else [1], "probability": 0.5, "id": id,
        "until": selector, "moment": moment, "groups": [[0], [1]], "after_s": [0.1], "cut": "drop",
        "one_way": False, "silent": False, "graceful": True, "where": "udf", "error": "x",
        "flips": 1, "threads": 2, "worker": 0, "from_s": 0.0, "until_s": 9.0, "down_s": 0.1,
        "period_s": 0.2, "fifo": True, "works": True,
    }  # fmt: skip
    if name == "after_s" and kind != "duplicate":
        return 0.1
    return known.get(name, 0.5)


def full_scenario() -> dict[str, Any]:
    from squall.sim.search.draw import draw

    said = scenario_to_json(draw(3))
    said["world"] = {
        "latency": "constant:0.001",
        "bandwidth_bytes_per_s": 1e6,
        "shut_down_early": False,
        "skip_handshakes": False,
        "rpc_timeout_s": 5.0,
        "device": "cpu",
    }
    said |= {"engine": "port", "profile": "rough", "note": "a note"}
    said["expected"] = {
        "digest": "0" * 32, "outcome": "failed", "property": "rrefs", "what": "x", "mutant": None,
    }  # fmt: skip
    return said


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value, the whole included."""
    yield path
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


def changed(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = json.loads(json.dumps(data))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return copy


def named(path: tuple[Any, ...]) -> str:
    """The last name on a way into a file."""
    return next((key for key in reversed(path) if isinstance(key, str)), "")


def complaint(error: ValueError) -> str:
    (line,) = str(error).splitlines()
    assert len(line) < 1500
    return line


def test_the_examples_are_right_as_they_are() -> None:
    plan = load_plan(json.dumps(full_plan()), workers=2)
    assert sum(1 for _ in plan.items()) == sum(map(len, GROUPS.values()))
    assert isinstance(load_scenario(json.dumps(full_scenario())), Scenario)


def test_every_field_of_a_plan() -> None:
    """Each value in each place is taken as it is, or refused with the name of the field."""
    data, refused = full_plan(), 0
    for path in places(data):
        for value in WRONG:
            text = json.dumps(changed(data, path, value))
            try:
                plan = load_plan(text, workers=2)
            except PlanError as error:
                refused += 1
                line = complaint(error)
                assert line.startswith("faults"), line
                assert named(path) in line or named(path[:-1]) in line, (path, value, line)
            else:
                plan_to_json(plan)
    assert refused > 1000


def test_every_field_of_a_scenario() -> None:
    data, refused = full_scenario(), 0
    for path in places(data):
        for value in WRONG:
            text = json.dumps(changed(data, path, value))
            try:
                load_scenario(text)
            except ValueError as error:
                refused += 1
                line = complaint(error)
                assert named(path) in line or named(path[:-1]) in line, (path, value, line)
    assert refused > 500


@pytest.mark.parametrize("data", [full_plan(), full_scenario()], ids=["plan", "scenario"])
def test_a_field_that_is_unknown_is_named(data: dict[str, Any]) -> None:
    load = load_plan if "messages" in data else load_scenario
    objects = [path for path in places(data) if isinstance(_at(data, path), dict)]
    assert len(objects) > 3
    for path in objects:
        text = json.dumps(changed(data, path, {**_at(data, path), "no_such_field": 1}))
        with pytest.raises(ValueError, match="no_such_field"):
            load(text)


def _at(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


# -- commands -------------------------------------------------------------------------------------


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that a command says to what is wrong with its words; also with ``--json``."""
    lines = []
    for more in ((), ("--json",)):
        with pytest.raises(SystemExit) as ended:
            run_command([*words, *more])
        said = capsys.readouterr()
        assert ended.value.code == 2, (words, said)
        assert "Traceback" not in said.err
        (line,) = said.err.splitlines()
        assert line.startswith("squall: "), line
        lines.append(line)
        if more:
            report = json.loads(said.out)
            assert report["outcome"] == "bad input"
            assert line == f"squall: {report['message']}"
        else:
            assert said.out == ""
    assert lines[0] == lines[1]
    return lines[0]


NUMBERS = ("", "abc", "-1", "nan", "inf", "1e999", "1.5.1", HUGE)
COMMANDS: list[tuple[list[str], str, tuple[str, ...]]] = [
    (["run", "examples/pipeline.py"], "--workers", (*NUMBERS, "0", "40000", "2.5")),
    (["run", "examples/pipeline.py"], "--seed", (*NUMBERS, str(2**64), "1.0")),
    (["run", "examples/pipeline.py"], "--latency", (*NUMBERS, "gauss:1", "constant:", "uniform:2:1",
                                                    "empirical:no-such-file")),
    (["run", "examples/pipeline.py"], "--device", ("", "tpu")),
    (["run", "examples/pipeline.py"], "--engine", ("", "jax")),
    (["run", "examples/pipeline.py", "--workers", "2"], "--faults", ("", "wild", "examples")),
    (["fuzz"], "--seeds", (*NUMBERS, "5:3", ":", "1:", "-1:4", "0:1:2", f"0:{2**65}", "a:b")),
    (["fuzz"], "--minutes", (*NUMBERS, "0")),
    (["fuzz"], "--jobs", (*NUMBERS, "0", "1000")),
    (["fuzz"], "--device", ("", "tpu")),
    (["fuzz"], "--engine", ("", "jax")),
    (["fuzz"], "--faults", ("", "wild", "examples", "LICENSE")),
    (["replay"], "SCENARIO", ("", "abc", "-1", str(2**64), "examples", "no/such.json", "LICENSE")),
    (["replay", "1"], "--faults", ("", "wild", "examples", "LICENSE")),
    (["replay", "1"], "--mutant", ("", "no-such-bug")),
    (["replay", "1"], "--device", ("", "tpu")),
    (["replay", "1"], "--engine", ("", "jax")),
    (["replay", "1"], "--until", ("", "no_such_event", "-1", "t=", "t=abc", "t=nan", "t=-1",
                                  "pass_started:0", "pass_started:x", "pass_started:1.5")),
    (["replay", "1"], "--diff", ("", "abc", "-1", "examples", "no/such.json")),
    (["replay", "1"], "--save", ("", "examples", "no/such/folder.json")),
    (["shrink"], "SCENARIO", ("", "abc", "-1", str(2**64), "examples", "no/such.json", "LICENSE")),
    (["shrink", "1"], "--seconds", (*NUMBERS, "0", "1e9")),
    (["shrink", "1"], "--faults", ("", "wild", "examples")),
    (["shrink", "1"], "--mutant", ("", "no-such-bug")),
    (["shrink", "1", "--mutant", "release-only-here"], "--output", ("", "examples",
                                                                  "no/such/folder.json")),
    (["mutants"], "NAME", ("", "no-such-bug")),
    (["mutants", "release-only-here"], "--seconds", (*NUMBERS, "0")),
    (["mutants", "release-only-here"], "--jobs", (*NUMBERS, "0")),
    (["mutants", "release-only-here"], "--seeds", (*NUMBERS, "5:3")),
    (["mutants", "release-only-here"], "--faults", ("", "wild")),
    (["mutants"], "--drawn", (*NUMBERS, "0", "1.5")),
    (["mutants"], "--seed", (*NUMBERS, "3")),
    (["mutants", "--drawn", "1"], "--seed", (*NUMBERS, "1.5")),
    (["diff"], "SCENARIO", ("", "abc", "-1", str(2**64), "examples", "no/such.json", "LICENSE")),
    (["diff"], "--seeds", (*NUMBERS, "5:3", ":", "1:", "-1:4", "a:b")),
    (["timeline"], "SCRIPT", ("", "abc", "-1", str(2**64), "examples", "no/such.json",
                              "no_such_script.py", "LICENSE")),
    (["timeline", "1"], "--output", ("", "examples", "no/such/folder.html", "page.pdf")),
    (["what-if", "examples/ddp.py"], "--ranks", (*NUMBERS, "0", "40000", "2.5")),
    (["what-if", "examples/ddp.py"], "--link", ("", "fast", "latency=-1", "bandwidth=nan", "1-1:latency=1s", ":", "=")),
    (["what-if", "examples/ddp.py"], "--algorithm", ("", "ring", "all_reduce=", "barrier=ring")),
    (["what-if", "examples/ddp.py"], "--compute", ("", "x=", "no/such.json", "LICENSE.json")),
    (["what-if", "examples/ddp.py"], "--step", (*NUMBERS, "0", "1.5")),
    (["what-if", "examples/ddp.py"], "--output", ("", "examples", "no/such/folder.html")),
    (["timeline", "1", "-o", "graph.dot"], "--pass", (*NUMBERS, "1.5")),
    (["timeline", "1", "--odds"], "--points", (*NUMBERS, "0", "1.5")),
    (["timeline", "1", "--odds"], "--times", (*NUMBERS, "0", "1.5")),
    (["timeline", "1"], "--faults", ("", "wild", "examples", "LICENSE")),
    (["timeline", "1"], "--mutant", ("", "no-such-bug")),
    (["timeline", "1"], "--engine", ("", "jax")),
    (["timeline", "1"], "--device", ("", "tpu")),
    (["timeline", "examples/pipeline.py"], "--workers", (*NUMBERS, "0", "40000", "2.5")),
    (["timeline", "examples/pipeline.py"], "--seed", (*NUMBERS, str(2**64), "1.0")),
    (["timeline", "examples/pipeline.py"], "--latency", (*NUMBERS, "gauss:1", "constant:")),
    (["serve"], "--port", (*NUMBERS, "65536", "2.5")),
    (["serve"], "--store", ("", "LICENSE", "no/such/folder")),
    (["conformance"], "SUITE", ("", "no_such_suite", "-1")),
    (["conformance", "dist_autograd"], "--engine", ("", "jax")),
    (["conformance", "dist_autograd"], "--jobs", (*NUMBERS, "0", "1000")),
]  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("words", "field", "values"),
    COMMANDS,
    ids=[f"{words[0]} {field}" for words, field, _ in COMMANDS],
)
def test_every_option(
    words: list[str],
    field: str,
    values: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    for value in values:
        given = [f"{field}={value}"] if field.startswith("--") else ["--", value]
        if field.startswith("--"):
            line = told(capsys, *words, *given)
        else:
            line = told_positional(capsys, words, value)
        assert field in line, (field, value, line)
        assert len(line) < 1200


def test_a_store_that_is_no_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("mine", encoding="utf-8")
    for place in (file, file / "below"):
        monkeypatch.setenv("SQUALL_STORE", str(place))
        line = told(capsys, "failures")
        assert line.startswith("squall: SQUALL_STORE: expected a folder") and str(file) in line
        with pytest.raises(SystemExit) as ended:
            run_command(["campaign", "--help"])
        assert ended.value.code == 0 and "Usage" in capsys.readouterr().out


def told_positional(capsys: pytest.CaptureFixture[str], words: list[str], value: str) -> str:
    with pytest.raises(SystemExit) as ended:
        run_command([*words, "--json", "--", value])
    said = capsys.readouterr()
    assert ended.value.code == 2, (words, value, said)
    (line,) = said.err.splitlines()
    assert json.loads(said.out)["outcome"] == "bad input"
    return line


def bad_files(folder: Path) -> list[Path]:
    """Files that hold no plan and no scenario, each in its own way."""
    contents: dict[str, bytes] = {
        "empty.json": b"",
        "binary.json": bytes(range(256)),
        "text.json": b"hello",
        "list.json": b"[]",
        "number.json": b"3",
        "nan.json": b'{"version": 1, "heal_s": NaN}',
        "twice.json": b'{"version": 1, "version": 1}',
        "deep.json": b"[" * 100_000,
        "digits.json": b'{"version": 1, "seed": ' + b"1" * 5000 + b"}",
        "later.json": b'{"version": 99}',
        "bom.json": b"\xef\xbb\xbf{}",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder.json").mkdir()
    (folder / "loop.json").symlink_to(folder / "loop.json")
    secret = folder / "secret.json"
    secret.write_text("{}", encoding="utf-8")
    secret.chmod(0)
    found = [folder / name for name in (*contents, "folder.json", "loop.json", "missing.json")]
    # Root may read everything, and so may others who have its capability, of which access(2) knows
    # nothing; what nobody can read serves them instead.
    try:
        secret.read_bytes()
    except PermissionError:
        return [*found, secret]
    return [*found, Path("/proc/self/mem")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", [["replay"], ["shrink"], ["replay", "1", "--diff"]])
def test_files_that_are_no_scenario(
    words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for file in bad_files(tmp_path):
        line = told(capsys, *words, str(file))
        assert "SCENARIO" in line or "--diff" in line, line
        assert file.name in line


@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", [["replay", "1"], ["fuzz"], ["shrink", "1"]])
def test_files_that_are_no_plan(
    words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for file in bad_files(tmp_path):
        line = told(capsys, *words, "--faults", str(file))
        assert "--faults" in line
        assert file.name in line
