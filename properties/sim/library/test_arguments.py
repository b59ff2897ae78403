"""Bad arguments of public functions: one message that names the argument, its value and what is right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import squall


def nothing(rank: int) -> int:
    return rank


class Of:
    def one(self, rank: int) -> int:
        return rank

    def none(self) -> int:
        return 1


def keyword(rank: int, *, size: int) -> int:
    return rank * size


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: squall.run(nothing, workers=0), "workers: 0 is wrong: should be greater than or equal to 1"),
    (lambda: squall.run(nothing, seed=-1), "seed: -1 is wrong: should be greater than or equal to 0"),
    (lambda: squall.run(nothing, engine="x"), "engine: 'x' is wrong: should be 'port' or 'torch'"),
    (lambda: squall.run(nothing, latency="zz"), "bad latency 'zz'"),
    (lambda: squall.run(nothing, faults="wild"), "faults is 'wild', expected a plan"),
    (lambda: squall.run(nothing, args=3), "args is 3, expected a list"),
    (lambda: squall.run(nothing, args="ab"), "args is 'ab', expected a list"),
    (lambda: squall.run(nothing, kwargs=[1]), "kwargs is [1], expected a dictionary"),
    (lambda: squall.run(nothing, kwargs={1: 2}), "kwargs is {1: 2}, expected a dictionary"),
    (lambda: squall.run(nothing, join=3), 'join is 3, expected a name with the rank in it'),
    (lambda: squall.run(nothing, join="x"), "join is 'x', the same for all ranks"),
    (lambda: squall.run(nothing, join="{who}"), "join is '{who}', expected a name"),
    (lambda: squall.run(nothing, wall_limit_s=-1), "wall_limit_s is -1, expected a number of seconds"),
    (lambda: squall.run(lambda: 1), "function is <lambda>(), and each rank would call <lambda>(rank): too many"),
    (lambda: squall.run(Of().none), "each rank would call none(rank): too many positional"),
    (lambda: squall.run(nothing, args=(1,)), "each rank would call nothing(rank, 1): too many positional"),
    (lambda: squall.run(keyword), "each rank would call keyword(rank): missing a required"),
    (lambda: squall.run(keyword, kwargs={"width": 2}), "each rank would call keyword(rank, width=2): "),
    (lambda: squall.fuzz(lambda: 1), "each rank would call <lambda>(rank): too many"),
    (lambda: squall.explore(nothing), 'with join="worker{rank}" each rank joins one before it calls'),
    (lambda: squall.explore(nothing, join="w{rank}", workers=1, args=(2,)), "each rank would call nothing(rank, 2)"),
    (lambda: squall.fuzz(nothing, seeds=0), "seeds is 0, expected how many, at least 1"),
    (lambda: squall.fuzz(nothing, seeds="x"), "seeds is 'x', expected how many"),
    (lambda: squall.fuzz(nothing, seeds=1.5), "seeds is 1.5, expected how many"),
    (lambda: squall.fuzz(nothing, seeds=range(-2, 3)), "seeds is range(-2, 3), expected"),
    (lambda: squall.fuzz(nothing, shrink_s=-1), "shrink_s is -1, expected a number of seconds"),
    (lambda: squall.replay(None), "None is a NoneType, expected a seed, the path of a scenario file"),
    (lambda: squall.replay("nofile.json"), "'nofile.json' is no file and no stored failure"),
    (lambda: squall.shrink(1.5), "1.5 is a float, expected a seed"),
    (lambda: squall.shrink(5, seconds="x"), "seconds is 'x', expected a number of seconds"),
    (lambda: squall.explore(nothing, grain="x"), "grain is 'x', expected one of 'message'"),
    (lambda: squall.explore(nothing, executions=0), "executions is 0, expected an integer of at least 1"),
    (lambda: squall.test(seeds="a"), "seeds is 'a', expected an integer of at least 1"),
    (lambda: squall.test(workers=0), "workers is 0, expected an integer of at least 1"),
    (lambda: squall.test(latency="x"), "bad latency 'x'"),
    (lambda: squall.test(join="w"), "join is 'w', the same for all ranks"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_arguments_are_named(number: int) -> None:
    call, message = BAD[number]
    with pytest.raises((ValueError, TypeError, LookupError)) as caught:
        call()
    assert message in str(caught.value)


def test_what_takes_a_rank_is_called() -> None:
    for each in (nothing, Of().one, partial(keyword, size=2), lambda *_: 0):
        assert squall.run(each, workers=1).results == [0]
    assert squall.run(max, workers=1, args=(3,)).results == [3]  # nobody knows its arguments


MAIN = """
from dataclasses import dataclass
import squall
@dataclass
class Config:
    size: int
sys = 2
def call(function, *args):
    return function(*args)
def double(rank, config):
    return call(Config, config.size * sys), double
if __name__ == "__main__":
    for engine in ("port", "torch"):
        run = squall.run(double, workers=1, engine=engine, args=(Config(3),))
        (config, function), = run.results
        assert config == Config(6) and type(config) is Config and function is double, run.results
    print("same")
"""


@pytest.mark.usefixtures("compiled_engine")
def test_classes_of_a_main_module_come_back_whatever_its_names_are(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(MAIN, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "same\n", done.stdout + done.stderr
