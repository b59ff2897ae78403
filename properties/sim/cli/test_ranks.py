"""``squall run`` with a command line for each rank, and what else takes such a script."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from squall.properties.support.commands import squall
from squall.properties.support.playing import write

TWO = """
    import sys, torch
    import torch.distributed.rpc as rpc
    rank = int(sys.argv[1])
    print("rank", rank, "of", sys.argv[2:])
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        assert rpc.rpc_sync("w1", torch.add, args=(1, 1)) == 2
    if "fail" in sys.argv:
        raise ValueError("as asked")
    rpc.shutdown()
"""


def told(*words: str, code: int = 0) -> dict[str, object]:
    done = squall("run", "--json", *words)
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_all_ways_to_say_what_ranks_run_are_the_same_run(tmp_path: Path) -> None:
    script = str(write(tmp_path, TWO))
    write(tmp_path, "[[rank]]\nscript = 'script.py'\nargs = ['{rank}']\ncount = 2", "ranks.toml")
    by_placeholder = told("--workers", "2", script, "{rank}")
    by_words = told(script, "0", ":", script, "1")
    by_file = told(str(tmp_path / "ranks.toml"))
    assert by_placeholder["digest"] == by_words["digest"] == by_file["digest"]
    assert by_placeholder["ranks"] == by_words["ranks"] == by_file["ranks"]
    again = by_words["command"]
    assert isinstance(again, str)
    assert told(*shlex.split(again)[2:])["digest"] == by_words["digest"]


def test_what_failed_is_kept_with_all_its_command_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is replayed, shown and shrunk; no script for stock PyTorch can be made of it."""
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    script = write(tmp_path, TWO)
    found = told(str(script), "0", ":", str(script), "1", "fail", code=1)
    replay = shlex.split(str(found["replay"]))
    script.write_text("print('another')", encoding="utf-8")
    done = squall(*replay[1:], "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["digest"] == found["digest"]
    page = tmp_path / "page.html"
    assert squall("timeline", replay[2], "-o", str(page)).returncode == 0 and page.exists()
    done = squall("export", replay[2])
    assert done.returncode == 2 and "has 2 command lines" in done.stderr


def test_a_timeline_takes_a_file_of_ranks(tmp_path: Path) -> None:
    write(tmp_path, TWO)
    ranks = write(
        tmp_path, "[[rank]]\nscript = 'script.py'\nargs = ['{rank}']\ncount = 2", "ranks.toml"
    )
    done = squall("timeline", str(ranks), "-o", str(tmp_path / "events.csv"), "--json")
    assert done.returncode == 0, done.stderr


def test_every_order_of_the_ranks_of_a_file_is_explored(tmp_path: Path) -> None:
    write(tmp_path, TWO)
    ranks = write(
        tmp_path, "[[rank]]\nscript = 'script.py'\nargs = ['{rank}']\ncount = 2", "ranks.toml"
    )
    done = squall("explore", str(ranks), "--budget", "200", "--json")
    assert done.returncode in (0, 4), done.stdout + done.stderr
    assert json.loads(done.stdout)["scenarios"][0]["explorations"][0]["exhausted"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["examples/pipeline.py", ":"], "ARGS: expected a Python script and its arguments"),
        (["examples/pipeline.py", ":", "no.py"], "SCRIPT: there is no file 'no.py'"),
        (
            ["examples/pipeline.py", ":", "examples/pipeline.py", "--workers", "3"],
            "--workers: 2 command lines are given, expected 2 or no --workers",
        ),
        (["no.toml"], "SCRIPT: there is no file 'no.toml'"),
        (
            ["examples/pipeline.py", "{workers}"],
            "--workers: expected their number, since {workers} in the script's arguments needs it",
        ),
    ],
)
def test_what_is_mistyped_is_told_in_one_line(words: list[str], line: str) -> None:
    done = squall("run", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"squall: {line}") and done.stderr.count("\n") == 1
