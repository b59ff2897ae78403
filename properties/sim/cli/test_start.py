"""What is wrong with a command line is told before torch is imported, which takes seconds; so is the help.

All in one new interpreter, which is asked after each command line whether torch is there. How long
something takes is for ``benchmarks``.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from squall.properties.support.paths import ROOT
from squall.sim.cli.commands import command_modules, command_name
from squall.sim.cli.starting import NEVER, PROGRESS

#: runs each command line of standard input, and tells of each: its exit code, what it said, and whether
#: torch has been imported so far
_DRIVER = """
import contextlib, io, json, os, shlex, sys

sys.argv[0] = "squall"
from squall.sim.cli.main import main

told = []
for line in json.load(sys.stdin):
    out, err, code = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(shlex.split(line))
        except SystemExit as ended:
            code = ended.code
    told.append([code, out.getvalue(), err.getvalue(), "torch" in sys.modules])
json.dump(told, sys.stdout)
"""

COMMANDS = [command_name(module) for module in command_modules()]

#: of each file that command lines name, what is in it
FILES = {
    "text.json": "hello",
    "list.json": "[]",
    "later.json": '{"version": 99}',
    "nothing.json": '{"version": 2, "seed": 1}',
    "field.json": '{"version": 2, "no_such_field": 1}',
    "world.json": '{"version": 2, "world": {"latency": "gauss:1"}, "script": {"path": "a", "text": ""}}',
    "workers.json": '{"version": 2, "program": {"version": 2, "workers": 0, "leaves": [], "trainers": []}}',
    "types.json": '{"version": 2, "program": {"version": 2, "workers": "two", "leaves": [], "trainers": []}}',
    "script.json": '{"version": 2, "script": {"path": "a.py", "text": "print(1)"}}',
    "broken.json": '{"version": 2, "script": {"path": "a.py", "text": "print("}}',
    "plan-kind.json": '{"version": 1, "messages": [{"kind": "no_such"}]}',
    "plan-value.json": '{"version": 1, "links": [{"kind": "loss", "probability": 2, "id": 1}]}',
    "plan-far.json": '{"version": 1, "workers": [{"kind": "crash", "worker": 7}]}',
    "cover.json": '{"version": 1}',
    "mutant.json": '{"version": 2, "script": {"path": "good.py", "text": "print(1)\\n"}, "expected": {"mutant": "nope"}}',
    "empty.toml": "",
    "shares.toml": "scenarios = 100\n[parts]\nplain = 0.5\nrough = 0.6\n",
    "part.toml": "scenarios = 100\n[parts]\nno_such = 1\n",
    "bug.toml": 'scenarios = 100\n[parts]\nplain = 1\n[parts.canaries]\nbugs = ["nope"]\n',
    "bounds.toml": 'scenarios = 100\n[parts.explore]\nprograms = "x"\n',
    "python.toml": 'scenarios = 100\npython = ["python3"]\n[parts]\nplain = 1\n',
    "versions.toml": "scenarios = 100\n[parts]\nversions = 1\n",
    "ranks.toml": '[[rank]]\nscript = "nope.py"\n',
    "good.py": "print(1)\n",
    "bad.py": "print(\n",
    "there.txt": "",
}  # fmt: skip

#: a command line, and a part of what it says
WRONG = [
    ("frobnicate", "No such command"),
    ("--frob", "no such option"),
    # campaigns of random programs
    ("fuzz --frob", "no such option"),
    ("fuzz --faults x", "--faults: expected mild, rough, storm or a file"),
    ("fuzz good.py --faults mild", "--faults: mild needs the number of workers: give --workers"),
    ("run --faults rough good.py", "--faults: rough needs the number of workers: give --workers"),
    ("fuzz --faults text.json", "is not JSON"),
    ("fuzz --faults list.json", "--faults: list.json: faults"),
    ("fuzz --faults later.json", "version"),
    ("fuzz --faults plan-kind.json", "faults.messages[0].kind"),
    ("fuzz --faults plan-value.json", "faults.links[0].probability"),
    ("fuzz --seeds 5:3", "--seeds: expected two integers"),
    ("fuzz --seeds 0:10 --minutes 3", "expected either --seeds or --minutes"),
    ("fuzz --engine torch --device stand-in", "--device"),
    ("fuzz --found 1:2", "--found: expected --until-proven"),
    ("fuzz --require-sometimes", "--require-sometimes: expected --faults"),
    ("fuzz --until-proven abc", "--until-proven: expected a seed"),
    ("fuzz --until-proven 3 --seeds 0:3", "does not go with --until-proven"),
    ("fuzz --distil 10 --minutes 4", "does not go with --distil"),
    # the time of a step
    ("what-if nope.py", "SCRIPT: there is no file"),
    ("what-if good.py --link 5us", "--link: '5us' is wrong, expected latency=DURATION"),
    ("what-if good.py --link latency=1 --link latency=2", "--link: every link is given twice"),
    ("what-if good.py --algorithm reduce=star", "--algorithm: 'star' is no algorithm of reduce"),
    ("what-if good.py --compute list.json", "--compute: 'list.json' holds no object"),
    ("what-if good.py --plotly cdn", "--plotly: is for a page"),
    # a scenario again
    ("replay", "SCENARIO: expected a seed"),
    ("replay nope", "no stored failure"),
    ("replay 18446744073709551616", "SCENARIO: expected an integer"),
    ("replay 3@99999999999999999999", "the schedule"),
    ("replay text.json", "is not JSON"),
    ("replay list.json", "scenario"),
    ("replay later.json", "version"),
    ("replay nothing.json", "neither a program nor a script"),
    ("replay field.json", "no_such_field"),
    ("replay world.json", "bad latency 'gauss:1'"),
    ("replay workers.json", "program.workers: 0 is not between"),
    ("replay types.json", "program.workers"),
    ("replay broken.json", "is no Python script"),
    ("replay script.json", "--allow-scripts"),
    ("replay .", "Is a directory"),
    ("replay 1 --until no_such", "--until: expected the number"),
    ("replay 1 --diff nope", "--diff: 'nope' is no seed"),
    ("replay 1 --diff 2 --check-determinism", "--diff: expected without"),
    ("replay 1 --mutant nope", "there is no mutant 'nope'"),
    ("replay 1 --save no/such/f.json", "--save: there is no directory"),
    ("replay 1 --engine jax", "--engine: expected port or torch"),
    ("replay script.json --faults rough", "--faults: 'rough' is no file"),
    ("replay script.json --faults plan-kind.json", "faults.messages[0].kind"),
    ("shrink nope", "no stored failure"),
    ("shrink 1 --seconds 0", "--seconds: expected a positive number"),
    ("shrink mutant.json --allow-scripts", "there is no mutant 'nope'"),
    ("why nope", "no stored failure"),
    ("why nope.py", "SCRIPT: there is no file"),
    ("why 1 --workers 3", "--workers: is for a script"),
    ("why good.py --mutant dependency-not-counted", "--mutant: is for a seed"),
    ("export nope", "no stored failure"),
    ("export 1 -o there.txt", "--force overwrites it"),
    ("bisect nope --good HEAD", "FAILURE: 'nope'"),
    ("bisect 1 --good nope", "--good: there is no commit 'nope'"),
    ("failures --nope", "no such option '--nope'; squall failures --help shows"),
    # an option with an error in it, of each way to take options
    ("fuzz --seed 3 good.py", "no such option '--seed', did you mean --seeds?"),
    ("run --lat 0 good.py", "no such option '--lat', did you mean --latency?"),
    ("why --worker 2 good.py", "no such option '--worker', did you mean --workers?"),
    ("why 1 --worker 2", "no such option '--worker', did you mean --workers?"),
    ("timeline --worker 3 good.py", "no such option '--worker', did you mean --workers?"),
    ("explore --grian task 1", "no such option '--grian', did you mean --grain?"),
    ("export --worker 2 1", "no such option '--worker'; squall export --help shows"),
    # pictures
    ("timeline nope", "no stored failure"),
    ("timeline nope.py", "SCRIPT: there is no file"),
    ("timeline 1 --workers 3", "--workers: is for a script"),
    ("timeline 1 -o no/such/x.html", "--output: there is no directory"),
    ("timeline 1 -o g.dot --plotly cdn", "--plotly"),
    ("timeline good.py --odds", "--odds: expected a seed"),
    ("timeline good.py --mutant dependency-not-counted", "--mutant"),
    # every order
    ("explore", "expected a scenario, or --programs"),
    ("explore 1 nope", "no stored failure"),
    ("explore --programs x", "--programs: expected workers<=N"),
    ("explore 1 --programs x", "--programs: expected no scenarios"),
    ("explore 1 2 --resume x.json", "--resume: expected one scenario"),
    ("explore 1 --workers 3", "--workers"),
    ("explore 1 --grain no", "--grain"),
    ("explore 1 --budget no", "--budget"),
    # two engines
    ("diff 1 nope", "no stored failure"),
    ("diff 1 --seeds 0:3", "expected either scenarios or --seeds"),
    # bugs and checks
    ("mutants nope", "NAME: there is no mutant"),
    ("findings nope", "WHAT: expected issue"),
    ("findings issue nope", "NAME: there is no finding"),
    ("findings issue", "NAME: expected one of"),
    ("mutants --seed 3", "--seed: got 3 without --drawn"),
    ("mutants --explore --seeds 0:3", "expected no --seeds"),
    ("mutants --drawn 3 --all", "--drawn: expected no NAME"),
    ("examples nope", "NAME: expected ddp or"),
    ("properties --page x.md", "--page: expected --excuses"),
    ("properties --seeds 0:3", "--seeds"),
    ("conformance nope", "there is no suite 'nope'"),
    ("conformance -k no_such_test_anywhere", "-k: no test has"),
    ("conformance --engine torch --device stand-in", "--device"),
    ("corpus --merge", "expected one or more covers"),
    ("corpus --merge --minimise", "got both"),
    ("corpus -o x.json", "-o: expected --merge or --minimise"),
    ("corpus --minimise", "there is no cover in this folder"),
    ("corpus text.json --minimise", "text.json"),
    ("corpus cover.json --merge", "cover.json"),
    ("corpus nope.json --merge", "cannot read 'nope.json'"),
    # campaigns that are kept
    ("campaign --index 3/2", "--index: expected an index"),
    ("campaign --index 3", "--index: expected I/N"),
    ("campaign --on index", "--on: index: expected --index, or"),
    ("campaign --on moon", "--on: expected pool"),
    ("campaign --ray-address 1.2.3.4:80", "--ray-address: expected --on ray"),
    ("campaign --worker-memory 3", "--worker-memory: expected megabytes"),
    ("campaign --seeds 0:18446744073709551615", "--seeds: expected seeds up to"),
    ("campaign --merge", "expected the stores"),
    ("campaign --merge nope.sqlite", "nope.sqlite"),
    ("campaign --export out --merge", "--merge: does not go with --export"),
    ("campaign --export out", "campaign.sqlite"),
    ("campaign --store no/such/a.sqlite", "--store: there is no directory"),
    ("campaign --store ftp://there", "--store: expected a file or postgresql"),
    ("campaign nope.toml", "No such file"),
    ("campaign text.json", "text.json"),
    ("campaign empty.toml", "parts: is missing"),
    ("campaign empty.toml part.toml", "expected one campaign.toml"),
    ("campaign empty.toml --seeds 0:3", "--seeds: does not go with"),
    ("campaign shares.toml", "the shares add up to 1.1"),
    ("campaign part.toml", "there is no part 'no_such'"),
    ("campaign bug.toml", "there is no planted bug 'nope'"),
    ("campaign bounds.toml", "programs: expected workers<=N"),
    ("campaign python.toml", "python: is for a part versions"),
    ("campaign versions.toml", "python: is missing"),
    # a page
    ("serve --port 99999", "--port: expected an integer"),
    ("serve --store nope", "--store: there is no directory"),
    ("serve --token abcdefgh", "--token: goes with --host"),
    ("serve --host 0.0.0.0 --token x", "--token: expected at least"),
    ("serve --campaign nope.sqlite", "--campaign: nope.sqlite"),
    # scripts
    ("run", "Missing argument 'SCRIPT'"),
    ("run nope.py", "SCRIPT: there is no file"),
    ("run bad.py", "is no Python script"),
    ("run .", "is a directory"),
    ("run -- --nope", "no such option '--nope'"),
    ("run empty.toml", "file.rank"),
    ("run ranks.toml", "file.rank[0].script"),
    ("run ranks.toml more", "ARGS"),
    ("run good.py : nope.py", "SCRIPT: there is no file"),
    ("run good.py :", "expected a Python script and its arguments"),
    ("run --workers 5 good.py : good.py", "2 command lines are given"),
    ("run good.py {workers}", "--workers: expected their number"),
    ("run good.py --workers 0", "--workers: expected an integer"),
    ("run good.py --latency gauss:1", "--latency: bad latency"),
    ("run good.py --wall-limit no", "--wall-limit"),
    ("run good.py --faults rough", "rough needs the number of workers"),
    ("run good.py --faults plan-far.json --workers 2", "is not one of the 2 workers"),
    ("run good.py --engine torch --device stand-in", "--device"),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int | None, str, str, bool]]:
    """What came of each command line."""
    folder = tmp_path_factory.mktemp("start")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    lines = ["--help", "--version", *(f"{name} --help" for name in COMMANDS)]
    lines += [line for line, _ in WRONG]
    return dict(zip(lines, _run(lines, folder), strict=True))


def _run(lines: list[str], folder: Path) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def test_help(told: dict[str, Any]) -> None:
    for line in ("--help", *(f"{name} --help" for name in COMMANDS)):
        code, out, err, torch = told[line]
        assert (code, err) == (0, ""), line
        assert "Usage: squall" in out, line
        assert not torch, f"squall {line} imports torch"


def test_version(told: dict[str, Any]) -> None:
    code, out, _, torch = told["--version"]
    assert code == 0 and out.startswith("squall ") and not torch


def test_what_is_wrong_is_told_without_torch(told: dict[str, Any]) -> None:
    for line, message in WRONG:
        code, out, err, torch = told[line]
        assert not torch, f"torch is there after squall {line}, or one before it"
        assert (code, out) == (2, ""), (line, err)
        (said,) = err.splitlines()
        assert message in said, line


def test_every_command_has_something_that_can_be_wrong() -> None:
    assert {line.split()[0] for line, _ in WRONG} >= set(COMMANDS)


def test_a_terminal_is_told_what_is_imported_until_there_is_more(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('ready')", encoding="utf-8")
    command = [sys.executable, "-m", "squall", "run", str(script)]
    child, terminal = pty.fork()
    if not child:
        os.chdir(ROOT)
        os.execv(sys.executable, command)
    told = b""
    with contextlib.suppress(OSError):  # its end
        while piece := os.read(terminal, 4096):
            told += piece
    os.waitpid(child, 0)
    before, _, after = told.partition(b"ready")
    assert b"squall run: importing PyTorch ..." in before and before.endswith(b"\x1b[2K")
    assert b"\x1b[2K" not in after and b"outcome" in after


@pytest.mark.parametrize("progress", ["", NEVER])
def test_a_pipe_is_told_once_that_a_command_is_at_work(progress: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "squall", "replay", "7", "--json"],
        cwd=ROOT,
        env={**os.environ, PROGRESS: progress},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == ("" if progress == NEVER else "squall replay: at work ...\n")
