"""``squall what-if``: what it accepts, says and draws."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from squall.properties.support.commands import ROOT, squall
from squall.sim.cli.main import main

PIPELINE = "examples/pipeline_1f1b.py"
COSTS = ("--ranks", "4", "--link", "latency=100us,bandwidth=1e9")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([PIPELINE, "--link", "5us"], "--link: '5us' is wrong, expected latency=DURATION"),
        (
            [PIPELINE, "--link", "latency=1ms;2-3:latency=1s"],
            "--link: expected one link or all of them, and --link once for each",
        ),
        (
            [PIPELINE, "--link", "latency=1ms", "--link", "latency=2ms"],
            "--link: every link is given twice, expected once",
        ),
        (
            [PIPELINE, "--algorithm", "all_reduce=star"],
            "--algorithm: 'star' is no algorithm of all_reduce, expected one of ring, tree, ",
        ),
        ([PIPELINE, "--compute", "no.json"], "--compute: cannot read 'no.json': No such file"),
        (
            [PIPELINE, "--plotly", "cdn"],
            "--plotly: is for a page, and none is asked for: add --output FILE",
        ),
        ([PIPELINE, "--step", "0"], "--step: expected an integer from 1 to 1000000, got '0'"),
        (["no.py"], "SCRIPT: there is no file 'no.py', expected a Python script"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as left:
        main(["what-if", *words])
    told = capsys.readouterr()
    assert left.value.code == 2 and not told.out
    assert told.err.startswith("squall: ") and line in told.err
    assert told.err.count("\n") == 1


def test_a_step_is_told_by_its_parts(tmp_path: Path) -> None:
    costs, page = tmp_path / "costs.json", tmp_path / "step.html"
    costs.write_text('{"Sequential": "10ms", "backward": 0.02}', encoding="utf-8")
    words = (PIPELINE, *COSTS, "--compute", str(costs), "-o", str(page))
    done = squall("what-if", *words)
    assert done.returncode == 0, done.stderr
    # 8 micro-batches and 3 others, and on each rank the one process beside them; of messages 300 µs more each way.
    assert (
        "step 5: 361.9 ms" in done.stdout
        and "no compute      25.4 % of the ranks' time" in done.stdout
    )
    assert "critical path" in done.stdout and "for rank 1" in done.stdout
    assert "step 5  loss" in done.stderr
    text = page.read_text(encoding="utf-8")
    assert "Critical path: 361.9 ms: 58 % rank 2 computes" in text


def test_json_has_all_of_it() -> None:
    done = squall(
        "what-if",
        PIPELINE,
        *COSTS,
        "--compute",
        "Sequential=10ms,backward=20ms",
        "--step",
        "2",
        "--json",
    )
    found = json.loads(done.stdout)
    assert (found["step"], len(found["steps_s"]), found["links"]) == (
        2,
        5,
        "latency=100us,bandwidth=1e9",
    )
    assert found["seconds"] == found["steps_s"][1]
    for rank in found["ranks"]:
        message = rank["operations"]["message"]
        whole = sum(rank["compute_s"].values()) + rank["idle_s"] + message["moving_s"]
        assert whole + sum(message["waiting_s"].values()) == pytest.approx(
            found["seconds"], rel=0.01
        )
        assert rank["compute_s"] == pytest.approx({"Sequential": 0.09, "backward": 0.18})
    path = found["critical_path"]
    assert path[-1]["end_s"] - path[0]["start_s"] == pytest.approx(found["seconds"])


def test_a_step_that_is_not_there_and_a_script_that_fails_are_told(tmp_path: Path) -> None:
    done = squall("what-if", PIPELINE, "--ranks", "2", "--step", "9")
    assert done.returncode == 2
    assert "--step: an optimizer made 5 steps in it, expected 1 to 5" in done.stderr
    script = tmp_path / "fails.py"
    script.write_text(
        "import torch.distributed as d\nd.init_process_group('gloo')\n1 / 0\n", encoding="utf-8"
    )
    done = squall("what-if", str(script), "--ranks", "2")
    assert done.returncode == 1 and "ZeroDivisionError" in done.stdout
