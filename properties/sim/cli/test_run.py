"""The command: what it accepts, what it says, and the code it leaves with."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest

from squall.properties.support.commands import ROOT, squall

HELLO = """
import sys
print("argv", sys.argv[1:])
"""

TWO_WORKERS = """
import os
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

def double(x):
    return x * 2

def run(rank, world_size):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        BODY
    rpc.shutdown()

if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2)
"""

BACKWARD = """
with dist_autograd.context() as context_id:
    x = torch.ones(3, requires_grad=True)
    y = rpc.rpc_sync("worker1", double, args=(x,))
    dist_autograd.backward(context_id, [y.sum()])
    print("grad", dist_autograd.get_gradients(context_id)[x].tolist())
"""


def write(path: Path, text: str, body: str = "pass") -> str:
    body = textwrap.indent(textwrap.dedent(body).strip(), " " * 8).strip()
    path.write_text(text.replace("BODY", body), encoding="utf-8")
    return str(path)


# -- input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nofile.py"], "SCRIPT: there is no file 'nofile.py', expected a Python script"),
        (["examples"], "SCRIPT: 'examples' is a directory, expected a Python script"),
        (["LICENSE"], "SCRIPT: 'LICENSE' is no Python script, line 1: invalid syntax"),
        (
            ["--sede", "3", "examples/pipeline.py"],
            "command line: no such option '--sede', did you mean --seed? "
            "(what is for a script comes after it)",
        ),
        (
            ["examples/pipeline.py", "--workers", "0"],
            "--workers: expected an integer from 1 to 32768, got '0'",
        ),
        (
            ["examples/pipeline.py", "--workers", "abc"],
            "--workers: expected an integer from 1 to 32768, got 'abc'",
        ),
        (
            ["--workers=40000", "examples/pipeline.py"],
            "--workers: expected an integer from 1 to 32768, got '40000'",
        ),
        (
            ["examples/pipeline.py", "--seed", "-1"],
            "--seed: expected an integer from 0 to 18446744073709551615, got '-1'",
        ),
        (
            ["examples/pipeline.py", "--device", "tpu"],
            "--device: expected cpu or cuda or stand-in, got 'tpu'",
        ),
        (
            ["examples/pipeline.py", "--device", "stand-in", "--engine", "torch"],
            "--device: 'stand-in' is for the engine port: torch's own is carried on the CPU alone, "
            "expected cpu",
        ),
        (
            ["examples/pipeline.py", "--engine", "none"],
            "--engine: expected port or torch, got 'none'",
        ),
        (
            ["examples/pipeline.py", "--workers"],
            "command line: Option '--workers' requires an argument; "
            "squall --help shows what there is",
        ),
        (
            ["examples/pipeline.py", "--seeds", "3", "--no-check"],
            "--check: is for one run, expected none with --seeds, which stands for squall fuzz SCRIPT",
        ),
        (
            ["examples/pipeline.py", "--rank", "{rank}"],
            "--workers: expected their number, since {rank} in the script's arguments needs it",
        ),
        ([], "command line: Missing argument 'SCRIPT'; squall run --help shows what there is"),
    ],
)
def test_bad_input_is_one_line_that_says_what_would_be_right(words: list[str], line: str) -> None:
    ended = squall("run", *words)
    assert ended.returncode == 2
    assert ended.stderr == f"squall: {line}\n"
    assert ended.stdout == ""


def test_an_unknown_latency_lists_the_known_ones() -> None:
    ended = squall("run", "examples/pipeline.py", "--latency", "gauss:1")
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    for word in ("--latency", "'gauss:1'", "constant", "uniform", "lognormal", "empirical"):
        assert word in ended.stderr


def test_bad_input_with_json_is_an_object_too() -> None:
    ended = squall("run", "examples/pipeline.py", "--workers", "0", "--json")
    assert ended.returncode == 2
    assert json.loads(ended.stdout) == {
        "outcome": "bad input",
        "field": "--workers",
        "value": "0",
        "message": "--workers: expected an integer from 1 to 32768, got '0'",
    }


def test_a_bytes_file_is_no_script(tmp_path: Path) -> None:
    path = tmp_path / "picture.py"
    path.write_bytes(bytes(range(256)))
    ended = squall("run", str(path))
    assert ended.returncode == 2
    assert "is no Python script" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_help_and_version() -> None:
    assert re.fullmatch(r"squall \S.*\n", squall("--version").stdout)
    assert squall().stdout == squall("--help").stdout
    shown = squall("run", "--help")
    assert shown.returncode == 0
    assert "squall run examples/parameter_server.py --workers 4 --seed 7" in shown.stdout


# -- what the script gets -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "argv"),
    [
        ([], [], []),
        (["--seed", "3"], ["--epochs", "2", "data"], ["--epochs", "2", "data"]),
        ([], ["--epochs=2", "--seed", "3", "-v", "-n4"], ["--epochs=2", "-v", "-n4"]),
        ([], ["--seed", "3", "--", "--seed", "1", "--help"], ["--seed", "1", "--help"]),
    ],
)
def test_options_of_the_script_pass_through(
    tmp_path: Path, before: list[str], after: list[str], argv: list[str]
) -> None:
    ended = squall("run", *before, write(tmp_path / "hello.py", HELLO), *after)
    assert ended.returncode == 4, ended.stderr  # there is nothing in it to check
    assert f"argv {argv}" in ended.stdout


# -- a good run -----------------------------------------------------------------------------------


def test_a_good_run_says_so(tmp_path: Path) -> None:
    script = write(tmp_path / "step.py", TWO_WORKERS, BACKWARD)
    ended = squall("run", script, "--seed", "5")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("grad [2.0, 2.0, 2.0]\n")
    shown = " ".join(re.sub("[│|]", " ", ended.stdout).split())
    assert "outcome ok" in shown
    assert "equal to the single-process reference 1 of 1 backward pass compared" in shown
    assert "2 workers, seed 5, latency lognormal:0.001:0.5" in shown
    assert "0 RRefs, 0 contexts" in shown
    assert "call within a context 1" in shown


def test_json_is_one_object_whatever_the_script_prints(tmp_path: Path) -> None:
    noise = BACKWARD + 'os.write(1, b"past Python\\n")'
    ended = squall("run", write(tmp_path / "step.py", TWO_WORKERS, noise), "--json")
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert len(ended.stdout.splitlines()) == 1
    assert result["outcome"] == "ok"
    assert result["gradients_equal"] is True
    assert result["leaked"] == {"rrefs": 0, "contexts": 0}
    assert result["workers"] == 2
    assert result["messages"]["BACKWARD_AUTOGRAD_REQ"] == 2
    assert "past Python" in ended.stderr
    assert "grad [2.0, 2.0, 2.0]" in ended.stderr


def test_the_command_shown_repeats_the_run(tmp_path: Path) -> None:
    script = write(tmp_path / "a step.py", TWO_WORKERS, BACKWARD)
    options = ["--seed", "9", "--latency", "uniform:0.001:0.005"]
    first = json.loads(squall("run", script, *options, "--json", "--", "--seed", "x").stdout)
    words = shlex.split(first["command"])
    assert words[0] == "squall"
    words.insert(2, "--json")
    again = json.loads(squall(*words[1:]).stdout)
    assert again["digest"] == first["digest"]
    other = json.loads(squall("run", script, "--seed", "10", "--json").stdout)
    assert other["digest"] != first["digest"]


def test_a_warning_that_every_worker_gives_is_shown_once(tmp_path: Path) -> None:
    text = TWO_WORKERS.replace(
        "    rpc.shutdown()", '    warnings.warn("mind the gap")\n    rpc.shutdown()'
    )
    script = write(tmp_path / "warns.py", "import warnings\n" + text)
    ended = squall("run", script)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("mind the gap\n") == 1


def test_no_check_compares_nothing(tmp_path: Path) -> None:
    script = write(tmp_path / "step.py", TWO_WORKERS, BACKWARD)
    result = json.loads(squall("run", script, "--no-check", "--json").stdout)
    assert result["outcome"] == "ok"
    assert result["gradients"] is None
    assert result["gradients_equal"] is None


# -- failures -------------------------------------------------------------------------------------


def test_an_exception_names_the_worker_and_shows_the_scripts_own_frames(tmp_path: Path) -> None:
    body = 'rpc.rpc_sync("worker1", double, args=(object(),))'
    ended = squall("run", write(tmp_path / "broken.py", TWO_WORKERS, body))
    assert ended.returncode == 1
    assert re.search(
        r"worker0 \(rank 0\) failed: TypeError: .* raised on worker1 at \S+:\d+, called from ",
        ended.stdout,
    )
    assert "in double" in ended.stderr
    assert "return x * 2" in ended.stderr
    assert f"{ROOT}/sim" not in ended.stdout + ended.stderr
    assert "outcome" in ended.stdout


def test_a_deadlock_says_who_waits_for_what(tmp_path: Path) -> None:
    script = write(tmp_path / "stuck.py", TWO_WORKERS, "torch.futures.Future().wait()")
    ended = squall("run", script)
    assert ended.returncode == 1
    cause = "hang: worker0 waits for `torch.futures.Future()` (stuck.py:"
    assert cause in ended.stdout
    result = json.loads(squall("run", script, "--json").stdout)
    assert result["outcome"] == "deadlock"
    assert result["cause"].startswith(cause) and result["cycle"] == []
    assert any(line.startswith("worker0 waits for ") for line in result["waits"])


# -- the documented keys --------------------------------------------------------------------------


def keys_of(value: Any, path: str = "") -> set[str]:
    """Every key of an object, in the notation of docs/json.md."""
    maps = ("messages", "faults", "exit_codes")
    found: set[str] = set()
    if isinstance(value, dict) and path not in maps:
        for key, inner in value.items():
            name = f"{path}.{key}" if path else key
            found |= {name} | keys_of(inner, name)
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, dict) and path == "errors":
                found |= keys_of(inner, f"{path}[]")
    return found


def test_docs_name_every_key_and_no_other(tmp_path: Path) -> None:
    good = squall("run", write(tmp_path / "step.py", TWO_WORKERS, BACKWARD), "--json")
    bad = squall("run", write(tmp_path / "raises.py", TWO_WORKERS, "1 / 0"), "--json")
    printed = keys_of(json.loads(good.stdout)) | keys_of(json.loads(bad.stdout))
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    section = text.split("## `squall run`")[1].split("### Outcomes")[0]
    documented = set(re.findall(r"^\| `([^`]+)` \|", section, re.M))
    assert documented == printed
