"""What rows cost now and on a fixed old commit, of which two processes take turns: whatever else the machine does slows
both, so that ratios can be compared from month to month (:mod:`benchmarks.history`)."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: of 2026-11-24: the first that has all rows, measured by functions of today's names
FIXED, TURNS = "5d186a44", 7
#: ``squall fuzz``: the first seed, and how many of them on each engine
FIRST, SCENARIOS = 9_700_000, {"port": 40, "torch": 20}

# -- in each of the two processes: rows, with their units, and what they cost ----------------------


def fuzz(engine: str = "port") -> dict[str, float]:
    from squall.sim.search.draw import Settings
    from squall.sim.search.judge import drawn_ahead, judge

    settings, began = Settings(engine=engine), time.perf_counter()
    drawn = drawn_ahead(range(FIRST, FIRST + SCENARIOS[engine]), settings)
    # An event, not a scenario: seeds have other programs today.
    events = sum(judge(each, settings).events for each in drawn)
    return {f"squall fuzz, {engine}, us an event": (time.perf_counter() - began) / events * 1e6}


def backward() -> dict[str, float]:
    from benchmarks import engine

    found = engine.measure(repeats=7).items()
    traced = {f"backward, {name}, traced, times torch": row["ratio_traced"] for name, row in found}
    return {f"backward, {name}, times torch": row["ratio"] for name, row in found} | traced


def message() -> dict[str, float]:
    from benchmarks import network

    cost = network.microseconds_per_message("lognormal:0.001:0.5", messages=60_000)
    return {"a message, us": cost}


def step() -> dict[str, float]:
    from benchmarks import step

    cost = step.simulated(iterations=600)["seconds_per_iteration"]
    return {"a step of two workers, ms": cost * 1e3}


def explore() -> dict[str, float]:
    from benchmarks import explore

    explore.ENOUGH = 200
    subjects = {name: explore.story(*world[:3]) for name, world in explore.WORLDS.items()}
    rates = {name: explore.rate(subject, repeats=1) for name, subject in subjects.items()}
    return {f"explore, {name}, us an execution": 1e6 / rate for name, rate in rates.items()}


def checks() -> dict[str, float]:
    from benchmarks import sizes

    sizes.WORKERS, sizes.NODES = (2,), (1_000,)  # type: ignore[assignment]
    (row,) = sizes.measure()
    each_us = row["checks_s"] / (row["nodes"] + row["messages"]) * 1e6
    return {"checks, us a node or message": each_us}


def on_torch() -> dict[str, float]:
    return fuzz("torch")


def tensorpipe() -> dict[str, float]:
    from benchmarks import step

    return {"a step of two workers, times TensorPipe": step.measure(rounds=1)["ratio"]}


_PARTS = (fuzz, backward, message, step, explore, checks, on_torch, tensorpipe)
PARTS: dict[str, Callable[[], dict[str, float]]] = {each.__name__: each for each in _PARTS}
#: several processes at work: by the clock on the wall
ON_THE_WALL = ("on_torch", "tensorpipe")
#: measured now alone, since there is nothing of ours in it to compare
ALONE = ("tensorpipe",)


def answer() -> None:
    """What each process does: it reads the name of a part, and writes what that costs."""
    import torch

    from squall.sim.scenarios.settings import campaign_settings

    answers, wall = os.fdopen(os.dup(1), "w"), time.perf_counter
    os.dup2(2, 1)
    torch.set_num_threads(1)
    with campaign_settings():
        for name in map(str.strip, sys.stdin):
            time.perf_counter = wall if name in ON_THE_WALL else time.process_time
            print(json.dumps(PARTS[name]()), file=answers, flush=True)


# -- two processes --------------------------------------------------------------------------------


def measured(of: str | None) -> dict[str, Any]:
    """An entry: what each row costs, and how many times as fast as on the old commit that is."""
    costs: dict[str, list[tuple[float, float]]] = {}
    with checkout(FIXED) as old, checkout(of) as new, side(old) as before, side(new) as now:
        for part in PARTS:
            for _ in range(TURNS):
                was = {} if part in ALONE else before(part)
                for row, cost in now(part).items():
                    costs.setdefault(row, []).append((was.get(row, 0.0), cost))
        commit = _git(new, "rev-parse", "--short=12", "HEAD")
        changed = _git(new, "status", "--porcelain", "--", "real", "model", "sim")
    return {
        "commit": commit + "+" * bool(changed),
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "load": round(os.getloadavg()[1], 1),
        "against": FIXED,
        "rows": {
            row: {
                "now": float(f"{median(cost for _, cost in each):.3g}"),
                "ratio": round(median(was / cost for was, cost in each), 3) or None,
            }
            for row, each in costs.items()
        },
    }


@contextmanager
def checkout(commit: str | None) -> Iterator[Path]:
    """A folder with the files of a commit; of None, what is here. Raises RuntimeError."""
    if commit is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix="squall-bench-") as folder:
        _git(ROOT, "clone", "-q", "--shared", "--no-checkout", str(ROOT), folder)
        _git(Path(folder), "checkout", "-q", "--detach", commit)
        yield Path(folder)


@contextmanager
def side(root: Path) -> Iterator[Callable[[str], dict[str, float]]]:
    """A process on the files of a folder, which measures a part when asked. Raises RuntimeError."""
    words = [sys.executable, "-P", "-W", "ignore", __file__]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(
        words, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, **pipes
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def ask(part: str) -> dict[str, float]:
            with suppress(BrokenPipeError):  # it has ended: there is no answer
                print(part, file=process.stdin, flush=True)
            if not (line := process.stdout.readline()):
                raise RuntimeError(f"{part} cannot be measured in {root}")
            return json.loads(line)

        yield ask


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, check=False, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout.strip()


if __name__ == "__main__":
    answer()
