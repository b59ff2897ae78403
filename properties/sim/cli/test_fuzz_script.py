"""``squall fuzz SCRIPT``."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from squall.properties.support.commands import squall

SCRIPT = """
import os, sys, time
import torch.distributed.rpc as rpc

order = []


def note(rank):
    order.append(rank)


rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
if rank:
    rpc.rpc_sync("worker0", note, args=(rank,))
else:
    time.sleep(1)
    assert sys.argv[1:] != ["sorted"] or order == sorted(order), order
rpc.shutdown()
"""


def test_a_script_is_run_to_its_first_failure(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    asked = "fuzz", str(script), "--workers", "3", "--seeds", "30"
    store = str(tmp_path / "store")
    done = squall(*asked, "--faults", "mild", SQUALL_STORE=store)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{script}: 30 runs, nothing is wrong in any of them\n"

    done = squall(*asked, "sorted", SQUALL_STORE=store)
    assert done.returncode == 1
    assert done.stdout.startswith(f"rank 0: AssertionError: [2, 1] at {script}:18\n")
    found = json.loads(squall(*asked, "--json", "sorted", SQUALL_STORE=store).stdout)["failure"]
    assert f"replay:    {found['replay']}" in done.stdout
    seeds = f"{found['seed']}:{found['seed'] + 1}"
    lost = squall(
        "fuzz", str(script), "--seeds", seeds, *asked[2:4], "sorted", SQUALL_STORE="/proc/x"
    )
    assert lost.returncode == 1 and lost.stderr.startswith("failures are not kept: /proc/x: ")
    as_run = squall("run", *asked[1:], "sorted", SQUALL_STORE=store)
    assert (as_run.returncode, as_run.stdout) == (1, done.stdout)
    again = squall("replay", found["file"], SQUALL_STORE=store)
    assert again.returncode == 1 and "as expected" in again.stdout
    page = tmp_path / "page.html"
    asked = "timeline", found["file"], "--plotly", "cdn", "-o", str(page)
    assert f" at {script}:18\n" in squall(*asked, SQUALL_STORE=store).stdout
    text = page.read_text(encoding="utf-8")
    for line in found["why"]["said"]:
        assert html.escape(line) in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["SCRIPT", "--jobs", "2"], "--jobs: is for random programs, expected none with SCRIPT"),
        (["--workers", "2"], "--workers: expected a script with it"),
        (["SCRIPT", "--faults", "mild"], "mild needs the number of workers: give --workers"),
        (["--sede", "3", "SCRIPT"], "no such option '--sede', did you mean --seeds?"),
    ],
)
def test_bad_input_is_told(tmp_path: Path, words: list[str], message: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = squall("fuzz", *(word.replace("SCRIPT", str(script)) for word in words))
    assert done.returncode == 2 and message in done.stderr
