"""Findings: folders that are whole, a page that is made of them, scripts that print what was kept."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from squall.properties.findings.finding import Finding, FindingError, findings, read
from squall.properties.findings.page import NO_FINDINGS, PAGE, pages
from squall.properties.findings.results import NO_LINE, Result, load, save
from squall.properties.findings.run import one_line, run_all
from squall.properties.support.commands import python
from squall.properties.support.markdown import links
from squall.properties.support.paths import ROOT
from squall.properties.support.waiting import wait_for
from squall.sim.scenarios.file import load_scenario

ALL = findings()
NAMES = {one.name: one for one in ALL}
#: lines of a script that are not blank
LEAST, MOST = 5, 40
#: those that neither wait nor hang
CHEAP = ("sparse-then-dense", "storage-of-two-types", "call-under-no-grad", "second-pass")
#: seconds that two workers of a script may take to meet on a busy machine
PATIENCE_S = 200.0

FACTS = 'severity = "leak"\n'
TEXT = """\
# A title

*There is no scenario for squall:* it is none of squall's.

## On stock PyTorch

One.

## Cause

[a.cpp](https://github.com/pytorch/pytorch/blob/cf30153c4c131c8164ee7798e5022d810682e2cb/a.cpp#L3)

## What would mend it

Three.
"""
SAYS = "print('a warning'); print('OK nothing'); raise SystemExit(3)"


def folder(here: Path, *, facts: str = FACTS, text: str = TEXT, stock: str = SAYS) -> Path:
    made = here / "a-finding"
    made.mkdir()
    (made / "finding.toml").write_text(facts, encoding="utf-8")
    (made / "README.md").write_text(text, encoding="utf-8")
    if stock:
        (made / "stock.py").write_text(stock, encoding="utf-8")
    return made


def test_every_folder_is_a_finding() -> None:
    folders = {file.name for file in (ROOT / "properties" / "findings").iterdir() if file.is_dir()}
    assert folders - {"__pycache__"} == set(NAMES)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_scripts_stand_alone(one: Finding) -> None:
    for script in (one.stock, one.control):
        if script is None:
            continue
        text = script.read_text("utf-8")
        assert "squall" not in text
        lines = [line for line in text.splitlines() if line.strip()]
        assert LEAST <= len(lines) <= MOST or script.name == "control.py"


def test_a_scenario_says_what_it_shows() -> None:
    folder = ROOT / "properties" / "findings"
    for file in folder.glob("*/scenario.json"):
        scenario = load_scenario(file)
        assert scenario.program is not None or scenario.note, file


def test_the_pages_are_made_of_the_folders() -> None:
    """With the table; and each link of a finding's page leads to a file."""
    for file, text in pages().items():
        written = file.read_text(encoding="utf-8")
        assert text == written, "python -m squall.properties.findings page writes it anew"
        assert [link for link in links(text) if not (file.parent / link).exists()] == []


def test_the_table_has_the_worst_first_and_what_cannot_be_shown_last() -> None:
    kinds = [(one.stock is None, one.facts.private_api, one.facts.severity) for one in ALL]
    worst = ["wrong-gradient", "wrong-value", "memory", "hang", "leak", "error", "difference"]
    assert kinds == sorted(kinds, key=lambda kind: (kind[0], kind[1], worst.index(kind[2])))
    table = PAGE.read_text(encoding="utf-8")
    places = [table.index(f"\n| [{one.name}](") for one in ALL]
    assert places == sorted(places)
    assert not NO_FINDINGS.keys() & NAMES.keys()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CHEAP)
def test_a_script_prints_what_was_kept(name: str) -> None:
    one = NAMES[name]
    version = torch.__version__.partition("+")[0]
    kept = load().get(version, {}).get(name)
    if kept is None:
        pytest.skip(f"nothing was kept for torch {version}: make findings TORCH={version}")
    assert one.stock is not None
    assert one_line(one.stock, limit_s=PATIENCE_S) == kept.stock
    if one.control is not None:
        assert one_line(one.control, limit_s=PATIENCE_S) == kept.control


def test_what_is_missing_or_wrong_is_said(tmp_path: Path) -> None:
    read(folder(tmp_path))
    for number, (changed, said) in enumerate(
        [
            ({"facts": FACTS.replace("leak", "sad")}, "severity"),
            ({"facts": FACTS + "colour = 1\n"}, "colour"),
            ({"facts": "severity = "}, "finding.toml"),
            ({"facts": FACTS + "words = 'promised'\n"}, "stand together"),
            (
                {"text": TEXT.replace("What would mend", "How to repair")},
                r"missing: \['What would mend it'\], not known: \['How to repair it'\]",
            ),
            ({"text": TEXT.removeprefix("# A title")}, "its first line is a title"),
            ({"text": TEXT.replace("cf3", "the main branch")}, "at a commit"),
            ({"stock": ""}, "either stock.py or"),
            ({"text": TEXT.replace("no scenario", "a scenario")}, "either scenario.json or"),
        ]
    ):
        here = tmp_path / str(number)
        here.mkdir()
        with pytest.raises(FindingError, match=said):
            read(folder(here, **changed))


def test_results_are_kept_as_they_are(tmp_path: Path) -> None:
    results = {"2.9.0": {"b": Result("OK one"), "a": Result("no line: x", "BUG two")}, "2.10.0": {}}
    save(results, tmp_path / "results.json")
    assert load(tmp_path / "results.json") == results
    assert results["2.9.0"]["a"].word == NO_LINE and results["2.9.0"]["b"].word == "OK"
    assert (tmp_path / "results.json").read_text(encoding="utf-8").index("2.9.0") < 20, (
        "as versions, not as words"
    )


def test_the_line_of_a_script_and_why_there_is_none(tmp_path: Path) -> None:
    one = read(folder(tmp_path))
    assert [result for _, result in run_all([one])] == [Result("OK nothing")]
    for text, said in [
        ("raise SystemExit(3)", "no line: it ended with code 3"),
        ("print('OK a'); print('BUG b')", "no line: it printed 2"),
        ("import time; time.sleep(1000)", "no line: stopped after 1 s"),
    ]:
        (tmp_path / "script.py").write_text(text, encoding="utf-8")
        assert one_line(tmp_path / "script.py", limit_s=1 if "sleep" in text else 60) == said


HANGS = """
import os, pathlib, time
if os.fork() == 0:
    pathlib.Path(__file__).with_name("child").write_text(str(os.getpid()))
time.sleep(1000)
"""


def test_ctrl_c_leaves_nothing_running(tmp_path: Path) -> None:
    made = folder(tmp_path, stock=HANGS)
    program = (
        "from pathlib import Path\n"
        "from squall.properties.findings.finding import read\n"
        "from squall.properties.findings.run import run_all\n"
        f"print(list(run_all([read(Path({str(made)!r}))])))\n"
    )
    running = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.DEVNULL)
    wait_for(
        lambda: (made / "child").exists() and (made / "child").read_text(encoding="utf-8"),
        "a child",
    )
    child = Path("/proc") / (made / "child").read_text(encoding="utf-8")
    assert child.exists()
    running.send_signal(signal.SIGINT)
    running.wait()
    wait_for(
        lambda: not child.exists() or "(zombie)" in (child / "status").read_text(encoding="utf-8"),
        "its end",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--torch", "two"), "'two' is no version such as 2.15.0"),
        (("run", "--torch", "2.13.0", "nothing"), "no finding nothing; there are "),
        (("run", "--torch", "2.13.0", "--at-once", "0"), "at least 1, not 0"),
    ],
)
def test_what_cannot_be_run_is_refused(words: tuple[str, ...], said: str) -> None:
    done = python("-m", "squall.properties.findings", *words)
    assert done.returncode == 2
    assert said in done.stderr and "Traceback" not in done.stderr
