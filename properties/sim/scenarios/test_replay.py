"""Replay: the same run to the last event, stopped on the way, described in words, compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer
from squall.properties.support.commands import ROOT, squall
from squall.properties.support.internal_words import INTERNAL
from squall.properties.support.playing import write
from squall.real.rpc.agent import RpcAgent
from squall.sim.cli.main import main
from squall.sim.pictures.narrate import column_log, narrate
from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios.file import dump_scenario, load_scenario
from squall.sim.scenarios.play import play
from squall.sim.scenarios.replay import (
    Until,
    digest_matches,
    first_difference,
    first_divergence,
    replay,
)
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings, draw
from squall.sim.world.watch import Comparer, Diverged, Recorder, stack_lines, watching

#: seeds that are replayed in two processes; before a release, a thousand
SEEDS = int(os.environ.get("SQUALL_SEEDS", "12"))

DIGESTS = """
import random, sys
from squall.sim.search.draw import Settings, draw
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.scenarios.replay import replay
stream = random.Random(5)
with campaign_settings():
    for _ in range(int(sys.argv[1])):
        seed, profile = stream.randrange(2**32), stream.choice([None, None, "mild", "rough", "storm"])
        print(seed, profile, replay(draw(seed, Settings(profile))).digest)
"""

#: each of some seeds as the first scenario of a process, and as the second
FIRST = """
import os, random, sys
from squall.sim.search.draw import Settings, draw
from squall.sim.scenarios.play import play
stream = random.Random(7)
for _ in range(int(sys.argv[1])):
    seed, profile = stream.randrange(2**32), stream.choice([None, None, "mild", "rough"])
    child = os.fork()
    if not child:
        first, second = (play(draw(seed, Settings(profile))).digest for _ in range(2))
        os._exit(first != second)
    if os.waitpid(child, 0)[1]:
        print(seed, profile)
"""


def saved(seed: int, profile: str | None = None) -> Scenario:
    return draw(seed, Settings(profile))


def test_random_seeds_have_equal_digests_in_two_processes() -> None:
    """With and without faults, and whatever hashes strings have there."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", DIGESTS, str(SEEDS)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("0", "4711")
    ]
    one, other = (run.communicate()[0].splitlines() for run in runs)
    assert len(one) == SEEDS
    assert one == other


def test_a_run_does_not_know_that_it_is_watched() -> None:
    for seed in range(6):
        plain = replay(saved(seed))
        assert replay(saved(seed), watcher=Recorder()).digest == plain.digest
        assert first_divergence(saved(seed)) is None


def _calls_often(scenario: Scenario) -> bool:
    """Whether the trainers make five calls without a limit of their own."""
    program = scenario.program
    assert program is not None
    away = [op for _, _, step in program.steps for op in step.ops if op.call in ("sync", "async")]
    return len(away) >= 5


def test_the_first_divergence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that reads a clock of this machine, at one call of many."""
    send = RpcAgent.send
    calls = 0

    def jittery(self: RpcAgent, to, message, timeout_s=60.0):  # type: ignore[no-untyped-def]
        nonlocal calls
        calls += 1
        timeout_s = 60.0 + time.perf_counter() if calls % 40 == 5 else timeout_s
        return send(self, to, message, timeout_s)

    monkeypatch.setattr(RpcAgent, "send", jittery)
    recorder = Recorder()
    scenario = next(filter(_calls_often, map(draw, range(1_000))))
    with campaign_settings(), watching(recorder):
        play(scenario)
    calls = 0
    with campaign_settings(), watching(Comparer(recorder.steps)), pytest.raises(Diverged) as caught:
        play(scenario)
    found = caught.value.divergence
    assert found.one is not None and found.other is not None
    assert found.one.what[3] == found.other.what[3] == "call_started"
    assert found.one.what[4][3] != found.other.what[4][3]
    assert "call_started" in str(found) and f"event {found.events} at t=" in str(found)
    for step in (found.one, found.other):
        assert any("in jittery" in line for line in stack_lines(step))
        assert json.dumps(found.to_json())


def test_a_draw_that_differs_is_named() -> None:
    """The same program with another seed parts at the first number that is drawn."""
    scenario = draw(3)
    recorder = Recorder()
    with campaign_settings(), watching(recorder):
        play(scenario)
    comparer = Comparer(recorder.steps)
    with campaign_settings(), watching(comparer), pytest.raises(Diverged) as caught:
        play(replace(scenario, seed=scenario.seed + 1000))
    assert "the first run has a draw for (3, " in str(caught.value)


def test_a_run_that_ends_early_diverges() -> None:
    recorder = Recorder()
    replay(saved(2), watcher=recorder)
    comparer = Comparer([*recorder.steps, recorder.steps[-1]])
    replay(saved(2), watcher=comparer)
    with pytest.raises(Diverged, match="the second ended"):
        comparer.finish()


@pytest.mark.parametrize(
    "until",
    [Until(number=100), Until(time_s=0.005), Until(name="node_executed", nth=2), Until(name="PYTHON_CALL")],
    ids=["number", "time", "event", "message"],
)  # fmt: skip
def test_a_run_stops_where_it_is_told_to(until: Until) -> None:
    whole = replay(saved(3))
    part = replay(saved(3), until=until)
    assert until.stopped and part.outcome == "stopped"
    assert list(part.records) == list(whole.records[: len(part.records)])
    assert len(part.records) < len(whole.records)
    assert any("waits for" in line for line in until.waiting)


def test_where_runs_part() -> None:
    one, other = replay(saved(3)), replay(saved(4))
    assert first_difference(one.records, one.records) is None
    found = first_difference(one.records, other.records)
    assert found is not None and found.one != found.other
    assert one.records[: found.number] == other.records[: found.number]
    ended = first_difference(one.records, one.records[:50])
    assert ended == (50, one.records[50], None)


def test_every_event_has_words() -> None:
    run = replay(saved(1, "rough"))
    lines = list(narrate(run))
    assert len(lines) == len(run.records)
    assert all(line.startswith("t=") and "\n" not in line for line in lines)
    assert any(" → w" in line for line in lines)
    assert not [line for line in lines if INTERNAL.search(line)]
    log = [line.plain for line in column_log(run, 8)]
    assert len(log) == len(lines) + 1


def test_the_words_of_a_dropped_message() -> None:
    """From the corpus: one message is lost."""
    run = replay(load_scenario(ROOT / "properties" / "corpus" / "fault_drop.json"))
    (line,) = [line for line in narrate(run) if " dropped: " in line]
    assert " w" in line and " → w" in line


SCRIPT = """
    import os
    import torch.distributed.rpc as rpc

    def fail(x):
        raise ValueError(f"no {x}")

    rank = int(os.environ.get("RANK", 0))
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 0:
        rpc.rpc_sync("worker1", fail, args=(3,))
    rpc.shutdown()
"""


def test_a_script_is_kept_whole(tmp_path: Path) -> None:
    """What failed runs again although the script is gone, and in another folder."""
    script = write(tmp_path, SCRIPT, "failing.py")
    store = str(tmp_path / "store")
    done = squall("run", str(script), "--workers", "2", "--json", SQUALL_STORE=store)
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["replay"].startswith("squall replay ")
    file = told["replay"].split()[-1]
    script.unlink()
    kept = load_scenario(Path(file))
    run = replay(kept)
    assert digest_matches(kept, run)
    assert run.outcome == "error" and "no 3" in run.violations[0].seen
    listed = json.loads(squall("failures", "--json", SQUALL_STORE=store).stdout)
    assert [each["file"] for each in listed["failures"]] == [file]


FORGETFUL = """
    import os
    import sys
    import torch.distributed.rpc as rpc

    def visits(path):
        with open(path, "a+") as file:
            file.write("x")
            file.seek(0)
            return file.read()

    rank = int(os.environ.get("RANK", 0))
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 0:
        rpc.rpc_sync("worker1", visits, args=(sys.argv[1],))
    rpc.shutdown()
"""


def test_a_script_that_is_not_deterministic_is_caught(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It counts its runs in a file, and so answers with another string each time."""
    script = write(tmp_path, FORGETFUL)
    words = ["run", str(script), "--workers", "2", "--check-determinism", "--json"]
    with pytest.raises(SystemExit) as caught:
        main([*words, "--", str(tmp_path / "visits")])
    assert caught.value.code == 1
    told = json.loads(capsys.readouterr().out)
    assert told["outcome"] == "ok"
    found = told["divergence"]
    assert "message_sent" in found["first"]["step"] and "PYTHON_RET" in found["second"]["step"]
    assert any("agent.py" in line for line in found["first"]["stack"])


def test_a_run_is_the_same_be_it_the_first_of_its_process_or_not() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST, str(4 * SEEDS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert done.stdout == ""


def test_what_a_process_tries_out_first_is_no_part_of_a_profile(tmp_path: Path) -> None:
    """A worker profiles the first pass of a process: how torch lays out nodes has been looked at."""
    program = Program(
        workers=2,
        leaves=(Leaf(owner=0),),
        trainers=(
            Trainer(
                worker=1,
                steps=(
                    Step(
                        ops=(
                            Op(kind="scale", inputs=(Input(back=1),), worker=0, call="sync"),
                            Op(kind="total", inputs=(Input(back=1),), worker=1),
                        ),
                        backwards=(Backward(roots=(1,), where="udf", worker=0),),
                        profiled=True,
                    ),
                ),
            ),
        ),
    )
    file = tmp_path / "profiled.json"
    file.write_text(dump_scenario(Scenario(work=program)), encoding="utf-8")
    done = squall("replay", str(file), "--check-determinism", "--json")
    assert done.returncode == 0, done.stdout


# -- the command ----------------------------------------------------------------------------------


def test_the_object_has_the_documented_keys(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    done = squall("replay", "3", "--check-determinism", "--json", "--save", str(file))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    documented = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    assert all(f"| `{key}` |" in documented for key in told)
    assert told["outcome"] == "ok" and told["violations"] == [] and told["divergence"] is None
    assert told["digest_matches"] is True
    kept = load_scenario(file)
    assert kept.expected.digest == told["digest"]
    # The same scenario from its file, and one that expects another digest.
    assert json.loads(squall("replay", str(file), "--json").stdout)["digest"] == told["digest"]
    file.write_text(
        dump_scenario(replace(kept, expected=Expected(digest="0" * 32))), encoding="utf-8"
    )
    other = squall("replay", str(file), "--json")
    assert other.returncode == 1
    assert json.loads(other.stdout)["digest_matches"] is False


def test_the_command_tells_the_run() -> None:
    log = squall("replay", "3", "--log", "--until", "40")
    assert log.returncode == 0, log.stderr
    assert "\x1b" not in log.stdout  # no colours in a pipe
    assert "stopped after event 40; who waits:" in log.stdout
    words = squall("replay", "3", "--verbose", "--until", "PYTHON_CALL:2").stdout
    assert "message sent: call of a Python function, worker1 → worker0" in words
    assert "message sent: shutdown, worker1 → worker0" in squall("replay", "3", "--verbose").stdout
    assert squall("replay", "3", "--until", "message sent:2").returncode == 0
    apart = squall("replay", "3", "--diff", "4")
    assert apart.returncode == 1
    assert "- #" in apart.stdout and "+ #" in apart.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "SCENARIO: 'nothing' is no seed, no file and no stored failure"),
        (["3", "--until", "lunch"], "--until: expected the number of an event, t=SECONDS"),
        (["3", "--until", "9999999"], "--until: there is no 9999999 in this run"),
        (["3", "--faults", "hail"], "--faults: expected mild, rough, storm or a file"),
        (["3", "--mutant", "nobody"], "--mutant: there is no mutant 'nobody'"),
        (["3", "--diff", "4", "--until", "3"], "--diff: expected without --until"),
        (["README.md"], "README.md: scenario: is not JSON"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    told = bad_input(words, capsys)
    assert message in told


def bad_input(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a mistyped command gets."""
    with pytest.raises(SystemExit) as caught:
        main(["replay", *words])
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    return told


def test_a_place_in_a_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.json"
    data = json.loads(dump_scenario(saved(3)))
    data["program"]["trainers"][0]["worker"] = 9
    file.write_text(json.dumps(data), encoding="utf-8")
    told = bad_input([str(file)], capsys)
    assert "program.trainers[0].worker: 9 is not one of the" in told
