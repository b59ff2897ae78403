"""The script of a scenario file from elsewhere: nobody runs it unasked."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from squall.properties.support.commands import ROOT, TIMEOUT_S, squall
from squall.sim.scenario import Scenario, Script
from squall.sim.scenarios import own
from squall.sim.scenarios.file import dump_scenario
from squall.sim.scenarios.own import read_scenario_file, text_to_write

FAILS = """\
import sys
open(sys.argv[1], "a").write("ran\\n")
import torch.distributed.rpc as rpc
rpc.init_rpc("w", rank=0, world_size=1)
rpc.shutdown()
raise ValueError("planted")
"""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that the script makes when it runs."""
    return tmp_path / "mark"


@pytest.fixture
def file(tmp_path: Path, mark: Path) -> Path:
    """A scenario with a script, which squall did not write."""
    path = tmp_path / "elsewhere.json"
    work = Script(path="train.py", text=FAILS, args=(str(mark),), workers=1)
    path.write_text(dump_scenario(Scenario(work=work)), encoding="utf-8")
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("SQUALL_CACHE", str(folder))
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    return folder


def commands(file: Path, tmp_path: Path) -> dict[str, list[str]]:
    return {
        "replay": ["replay", str(file)],
        "replay --diff": ["replay", "1", "--diff", str(file)],
        "shrink": ["shrink", str(file), "--seconds", "1", "-o", str(tmp_path / "small.json")],
        "timeline": ["timeline", str(file), "-o", str(tmp_path / "page.html")],
    }


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("command", ["replay", "replay --diff", "shrink", "timeline"])
def test_no_command_runs_it_unasked(command: str, file: Path, mark: Path, tmp_path: Path) -> None:
    words = commands(file, tmp_path)[command]
    done = squall(*words)
    assert done.returncode == 2 and not mark.exists()
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
    assert str(file) in done.stderr and "--allow-scripts" in done.stderr
    done = squall(*words, "--allow-scripts")
    assert done.returncode in (0, 1) and mark.exists(), done.stderr


@pytest.mark.usefixtures("cache")
def test_to_show_it_needs_no_question(file: Path, mark: Path) -> None:
    done = squall("export", str(file))
    assert done.returncode == 0 and "planted" in done.stdout
    assert squall("failures").returncode == 0
    assert not mark.exists()


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("answer", "runs"), [("y", True), ("n", False), ("", False)])
def test_a_terminal_is_asked(answer: str, runs: bool, file: Path, mark: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "squall", "replay", str(file)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL
    )
    os.close(theirs)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(ours, 1000)
    assert not mark.exists()
    os.write(ours, f"{answer}\n".encode())
    try:
        while os.read(ours, 1000):
            pass
    except OSError:  # the other end is closed
        pass
    assert process.wait(TIMEOUT_S) == (1 if runs else 2)
    assert mark.exists() == runs
    os.close(ours)


@pytest.mark.usefixtures("cache")
def test_files_that_squall_wrote_are_not_asked_about(
    file: Path, mark: Path, tmp_path: Path
) -> None:
    saved, small = tmp_path / "saved.json", tmp_path / "small.json"
    allowed = squall("replay", str(file), "--allow-scripts", "--save", str(saved))
    assert allowed.returncode == 1 and "planted" in allowed.stdout
    assert squall("replay", str(saved)).returncode == 1
    assert squall("shrink", str(saved), "--seconds", "1", "-o", str(small)).returncode == 0
    assert squall("replay", str(small)).returncode == 1
    script = tmp_path / "train.py"
    script.write_text(FAILS, encoding="utf-8")
    assert squall("run", str(script), str(mark), "--workers", "1").returncode == 1
    (kept,) = (tmp_path / "store" / "scenarios").iterdir()
    assert squall("replay", kept.stem).returncode == 1, "a stored failure by its name"
    saved.write_text(
        saved.read_text(encoding="utf-8").replace("planted", "edited"), encoding="utf-8"
    )
    assert squall("replay", str(saved)).returncode == 2, "it is another file now"


def test_own_is_what_was_written_down_by_this_user(file: Path, cache: Path) -> None:
    assert not read_scenario_file(file).own
    file.write_text(text_to_write(read_scenario_file(file).scenario), encoding="utf-8")
    assert read_scenario_file(file).own
    record = cache / own.FILE
    assert record.stat().st_mode & 0o777 == 0o600
    record.chmod(0o622)
    assert not read_scenario_file(file).own, "others could have written it"


def test_findings_are_own_wherever_they_are_linked(tmp_path: Path, cache: Path) -> None:
    finding = ROOT / "properties" / "findings" / "train-false-trains" / "scenario.json"
    link = tmp_path / "link.json"
    link.symlink_to(finding)
    copied = tmp_path / "copied.json"
    copied.write_text(finding.read_text(encoding="utf-8"), encoding="utf-8")
    found = [read_scenario_file(path).own for path in (finding, link, copied)]
    assert found == [True, True, False]
    assert not cache.exists(), "looking wrote nothing"


def test_programs_are_no_scripts(tmp_path: Path, cache: Path) -> None:
    scenario = read_scenario_file(next((ROOT / "properties" / "corpus").glob("fault_*.json")))
    path = tmp_path / "program.json"
    path.write_text(text_to_write(scenario.scenario), encoding="utf-8")
    assert read_scenario_file(path).own
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_to_costs_a_question(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no-folder").write_text("", encoding="utf-8")
    monkeypatch.setenv("SQUALL_CACHE", str(tmp_path / "no-folder" / "cache"))
    file.write_text(text_to_write(read_scenario_file(file).scenario), encoding="utf-8")
    assert not read_scenario_file(file).own
