"""Operators and modules take virtual time where ``--compute`` says how much."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import squall
from squall.properties.support.commands import squall as command
from squall.sim.names import EngineName
from squall.sim.world.compute import parse_compute, read_compute

SCRIPT = """
import os, threading, time
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 1)

    def forward(self, x):
        return self.linear(torch.relu(x))

def timed(what, function, *args):
    began = time.perf_counter()
    result = function(*args)
    print(what, round(time.perf_counter() - began, 2), flush=True)
    return result

def square(x):
    return timed("remote", torch.mul, x, x)

def train(rank):
    net, ones = Net(), torch.ones(1, 2, requires_grad=True)
    timed("module", net, ones)
    timed("operators", net.linear, timed("in place", ones.detach().clone().add_, 1))
    thread = threading.Thread(target=timed, args=("thread", torch.relu, ones))
    thread.start()
    thread.join()
    timed("questions", lambda: (ones.shape, ones.dim(), repr(ones), ones.is_leaf))
    timed("local", lambda: net.linear(ones).sum().backward())
    with dist_autograd.context() as context:
        there = rpc.rpc_sync("w1", square, (ones,))
        timed("distributed", dist_autograd.backward, context, [there.sum()])

if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        train(rank)
    rpc.shutdown()
"""
COSTS = "Net=5,linear=2,mul=0.3,backward=7,0.1"
TOOK = {"module": 5, "in place": 0.1, "operators": 2, "thread": 0.1, "questions": 0, "remote": 0.3,
        "local": 9.1, "distributed": 7}  # fmt: skip


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return str(path)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["port", "torch"])
def test_what_is_given_passes_on_the_clock(
    script: str, engine: EngineName, compiled_engine: None
) -> None:
    done = command(
        "run", script, "--workers", "2", "--engine", engine, "--latency", "0", "--compute", COSTS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    took = dict(re.findall(r"^(\w+(?: place)?) ([\d.]+)$", done.stdout, re.MULTILINE))
    assert {what: float(seconds) for what, seconds in took.items()} == TOOK


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["port", "torch"])
def test_what_was_measured_is_kept_and_played_again(
    script: str, engine: EngineName, compiled_engine: None
) -> None:
    words = ("run", script, "--workers", "2", "--engine", engine, "--latency", "1", "--json")
    done = command(*words, "--compute", "measured")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    measured = report["compute"]
    assert {"mul", "linear", "relu", "backward"} <= {
        each.partition("=")[0] for each in measured.split(",")
    }
    took = [float(each.rpartition("=")[2]) for each in measured.split(",")]
    assert max(took) < 1, "seconds of a processor, not those for which messages are under way"
    again = command(*words, "--compute", measured)
    assert json.loads(again.stdout)["digest"] == report["digest"]
    without = command(*words)
    assert json.loads(without.stdout)["digest"] != report["digest"]


def test_a_name_that_nothing_has_is_told(script: str) -> None:
    done = command("run", script, "--compute", "liner=1ms")
    assert "nothing ran that is called liner" in done.stdout + done.stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("costs", "problem"),
    [
        ("fast", "'fast' is no duration, expected seconds such as 0.001"),
        ("mul=1ms,mul=2ms", "mul has two durations, expected one"),
        ("a b=1ms", "'a b' is no name of an operator or a module"),
        ("mul=-1", "expected a finite number of seconds, 0 or more"),
        ("", "expected durations such as linear=1ms,20us"),
    ],
)
def test_costs_that_make_no_sense_are_refused(script: str, costs: str, problem: str) -> None:
    done = command("run", script, "--compute", costs)
    assert done.returncode == 2
    assert "--compute" in done.stderr
    assert problem in " ".join(done.stderr.split())


def test_ranks_that_are_functions_take_time_too() -> None:
    def clock(rank: int) -> float:
        import time

        import torch

        began = time.monotonic()
        torch.ones(2) @ torch.ones(2)
        return time.monotonic() - began

    run = squall.run(clock, workers=1, compute="matmul=3,1s", check=False)
    assert run.results == [pytest.approx(5, abs=1e-3)]
    with pytest.raises(ValueError, match="compute"):
        squall.run(clock, workers=1, compute="soon")


def test_a_file_says_what_operators_take(tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text('{"linear": "1ms", "Net": 0.005, "": "20us"}', encoding="utf-8")
    assert parse_compute(read_compute(costs)) == {"linear": 1e-3, "Net": 5e-3, "": 2e-5}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "costs.json' holds no object of names and durations"),
        ("{", "costs.json' is no JSON: "),
        ('{"linear": "soon"}', "'soon' is no duration"),
        ('{"linear": "1ms", "a-b": 1}', "'a-b' is no name of an operator or a module"),
    ],
)
def test_a_wrong_file_of_costs_is_told(text: str, problem: str, tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text(text, encoding="utf-8")
    done = command("run", "examples/parameter_server.py", "--compute", str(costs))
    assert done.returncode == 2 and done.stderr.startswith("squall: --compute: ")
    assert problem in done.stderr and done.stderr.count("\n") == 1
