"""``squall.run``: functions and scripts of somebody else's, run from their own code."""

from __future__ import annotations

import datetime
import io
import subprocess
import sys
import threading
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.distributed.rpc import rpc_sync

import squall
from squall.properties.support.paths import ROOT
from squall.sim.names import EngineName
from squall.sim.pictures.plotly_js import plotly_file

TIMEOUT_S = 240
#: what each rank has for itself
calls: list[int] = []


@dataclass
class Seen:
    rank: int
    values: list[float]


def double(x: torch.Tensor) -> torch.Tensor:
    calls.append(1)
    return x * 2


def greet(rank: int) -> None:
    print("rank", rank)


def train(rank: int, size: int = 2) -> tuple[Seen, int]:
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
    values = []
    if rank == 0:
        with dist_autograd.context() as context_id:
            x = torch.ones(3, requires_grad=True)
            dist_autograd.backward(context_id, [rpc_sync("worker1", double, args=(x,)).sum()])
            values = dist_autograd.get_gradients(context_id)[x].tolist()
    rpc.shutdown()
    return Seen(rank, values), len(calls)


def compare(rank: int) -> None:
    found = [1, 2]
    assert found == [1, rank]


def sleep_long(rank: int) -> int:
    began = time.monotonic()
    time.sleep(3600)
    return round(time.monotonic() - began)


def wait_for_nobody(rank: int) -> None:
    if rank == 0:
        threading.Event().wait()


def spin(rank: int) -> None:
    while True:
        rank += 1


def test_each_rank_calls_the_function_and_gives_its_result_back() -> None:
    run = squall.run(train, workers=2, seed=7)
    assert run.results == [(Seen(0, [2.0, 2.0, 2.0]), 0), (Seen(1, []), 1)]
    assert (run.outcome, run.ok, run.errors, run.problems) == ("ok", True, [], [])
    assert run.gradients is not None and run.gradients.compared == 1
    assert run.raise_if_failed() is run


def test_ranks_share_no_variable_with_each_other_or_with_the_caller() -> None:
    calls.append(5)
    try:
        run = squall.run(train, workers=2)
    finally:
        calls.clear()
    assert [count for _, count in run.results] == [0, 1]


def test_a_seed_decides_everything() -> None:
    digests = [squall.run(train, workers=2, seed=seed).digest for seed in (3, 3, 4)]
    assert digests[0] == digests[1] != digests[2]


class Dated(io.StringIO):
    """As what a notebook writes to: each message has its date."""

    def write(self, text: str) -> int:
        return super().write(f"{datetime.datetime.now().year}: {text}")


def test_a_run_does_not_depend_on_what_its_output_goes_to() -> None:
    dated = Dated()
    with redirect_stdout(dated):
        digest = squall.run(greet, workers=2, seed=3).digest
    assert squall.run(greet, workers=2, seed=3).digest == digest
    assert f"{datetime.datetime.now().year}: rank" in dated.getvalue()


def test_an_assertion_of_a_rank_tells_both_sides_and_its_line() -> None:
    run = squall.run(compare, workers=2)
    error = run.errors[0]
    assert (error.rank, error.type, run.outcome) == (0, "AssertionError", "error")
    assert "assert [1, 2] == [1, 0]" in error.message
    line = compare.__code__.co_firstlineno + 2
    assert (Path(error.file).name, error.line) == (Path(__file__).name, line)
    with pytest.raises(squall.Failed, match=rf"test_run\.py:{line}") as failed:
        run.raise_if_failed()
    assert failed.value.run is run
    assert "compare" in run.report() and "sim/library" not in error.traceback.replace(__file__, "")


def test_time_is_virtual() -> None:
    run = squall.run(sleep_long, workers=2)
    assert run.results == [3600, 3600]


def test_ranks_that_wait_for_ever_are_a_deadlock() -> None:
    run = squall.run(wait_for_nobody, workers=2)
    assert run.outcome == "deadlock" and not run.ok
    assert "hang: rank 0 waits for " in run.report()


def test_a_rank_that_never_waits_is_ended_and_its_line_told() -> None:
    run = squall.run(spin, workers=2, wall_limit_s=0.5)
    error = run.errors[0]
    assert (error.type, run.outcome) == ("Livelock", "error")
    first = spin.__code__.co_firstlineno
    assert Path(error.file).name == Path(__file__).name and first < error.line <= first + 2


def test_a_function_within_another_keeps_its_closure() -> None:
    hidden, factor = [3], 4.0

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * factor

    def step(rank: int, start: float, *, more: int) -> tuple[float, list[int]]:
        rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
        value = rpc_sync("worker1", double, args=(torch.tensor(start),)) if rank == 0 else None
        rpc.shutdown()
        hidden.append(rank)
        return 0.0 if value is None else scaled(value).item(), [*hidden, more]

    run = squall.run(step, workers=2, args=(5.0,), kwargs={"more": 9})
    assert run.results == [(40.0, [3, 0, 9]), (0.0, [3, 1, 9])]
    assert hidden == [3]


def test_a_variable_that_cannot_be_pickled_is_shared() -> None:
    drawn = (n for n in range(10))

    def step(rank: int) -> int:
        return next(drawn)

    assert sorted(squall.run(step, workers=2).results) == [0, 1]


def test_a_class_within_a_function_is_made_again_in_each_rank() -> None:
    class Layer(torch.nn.Module):
        made = 0

        def __init__(self) -> None:
            super().__init__()
            type(self).made += 1

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            time.sleep(1)
            return x + 1

    def step(rank: int) -> tuple[float, int]:
        return Layer()(torch.tensor(1.0)).item(), Layer.made

    run = squall.run(step, workers=2)
    assert run.results == [(2.0, 1)] * 2
    assert round(run.virtual_time_s) == 1
    assert Layer.made == 0


def test_a_result_that_cannot_leave_its_rank_is_described() -> None:
    def step(rank: int) -> Any:
        return threading.Lock()

    text = repr(squall.run(step, workers=1).results[0])
    assert "not pickled" in text and "lock" in text


def test_the_group_can_be_joined_for_the_function() -> None:
    def step(rank: int) -> float:
        return rpc_sync("trainer0", torch.add, args=(torch.tensor(1.0), rank)).item()

    run = squall.run(step, workers=3, join="trainer{rank}")
    assert run.results == [1.0, 2.0, 3.0]
    assert run.ok


def test_methods_of_a_class_are_called_on_an_instance_of_the_rank() -> None:
    assert squall.run(Counter().count, workers=2).results == [(0, 1), (1, 1)]


class Counter:
    def __init__(self) -> None:
        self.times = 0

    def count(self, rank: int) -> tuple[int, int]:
        self.times += 1
        return rank, self.times


def test_a_script_runs_as_it_does_on_the_command_line() -> None:
    run = squall.run(ROOT / "examples" / "parameter_server.py", workers=4, seed=7)
    assert run.ok and run.inner.workers == 4
    assert run.results == [None] * 4


def test_events_are_a_frame_and_pictures_a_page(tmp_path: Path) -> None:
    run = squall.run(train, workers=2)
    assert (run.events["event"] == "message_sent").sum() == sum(run.messages.values())
    page = run.timeline()
    assert "worker1" in page.save(tmp_path / "page.html").read_text(encoding="utf-8")
    assert page._repr_html_().startswith("<iframe")
    small = run.timeline(plotly="file")
    saved = small.save(tmp_path / "small.html")
    assert saved.stat().st_size < 500_000 and (tmp_path / plotly_file()).stat().st_size > 4_000_000
    assert len(small._repr_html_()) > 4_000_000  # a cell of a notebook has no file beside it
    with pytest.raises(
        ValueError, match="plotly is 'net', expected one of 'inline', 'cdn', 'file'"
    ):
        run.timeline(plotly="net")  # type: ignore[arg-type]
    assert "outcome" in run._repr_html_() and "ok" in repr(run)


def test_a_thread_that_is_not_the_main_one_can_run_it() -> None:
    runs: list[squall.Run] = []
    threads = [
        threading.Thread(target=lambda: runs.append(squall.run(train, workers=2))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert len({run.digest for run in runs}) == 1 and runs[0].ok


def test_faults_are_a_profile_or_a_plan() -> None:
    run = squall.run(train, workers=2, seed=3, faults="storm")
    assert run.scenario.profile == "storm" and len(run.scenario.faults)
    with pytest.raises(ValueError, match="'mild', 'rough', 'storm'"):
        squall.run(train, workers=2, faults="stormy")


def test_what_cannot_be_called_is_said_at_once() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match="function is int, expected a function"):
        squall.run(wrong)
    with pytest.raises(FileNotFoundError):
        squall.run("nowhere.py")
    with pytest.raises(AttributeError, match="no attribute 'runs'"):
        squall.__getattr__("runs")


UNGUARDED = """
import squall
import torch
import torch.distributed.rpc as rpc
from random import random as drawn
from time import sleep

SIZE = 2

class Net(torch.nn.Module):
    def forward(self, x):
        return helper(x)

def helper(x):
    sleep(2)
    return x * SIZE

def apply(x):
    return Net()(x)

def step(rank):
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=SIZE)
    value = rpc.rpc_sync("worker1", apply, args=(torch.ones(1),)) if rank == 0 else 0
    rpc.shutdown()
    return float(value), drawn() < 1

run = squall.run(step, workers=SIZE, engine=ENGINE)
run.raise_if_failed()
print(run.results, run.virtual_time_s > 2)
"""
PRINTED = "[(2.0, True), (0.0, True)] True"


@pytest.mark.usefixtures("compiled_engine")
@pytest.mark.parametrize("engine", ["port", "torch"])
def test_a_script_may_run_its_own_functions_without_a_guard(tmp_path: Path, engine: str) -> None:
    script = tmp_path / "trial.py"
    script.write_text(UNGUARDED.replace("ENGINE", repr(engine)), encoding="utf-8")
    assert PRINTED in printed(tmp_path, sys.executable, script)


def test_cells_of_ipython(tmp_path: Path) -> None:
    pytest.importorskip("IPython")  # comes with the notebooks
    cells = UNGUARDED.replace("ENGINE", "'port'").split("\n\n")
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell()\n"
        f"for cell in {cells!r}:\n"
        "    shell.run_cell(cell).raise_error()\n"
    )
    assert PRINTED in printed(tmp_path, sys.executable, "-c", code)


def test_cells_of_a_notebook(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")  # they come with the notebooks
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook()
    cells = [*UNGUARDED.replace("ENGINE", "'port'").split("\n\n"), "run", "run.timeline()"]
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbclient.NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3").execute()
    shown = [output for cell in notebook.cells for output in cell.outputs]
    assert PRINTED in shown[0]["text"]
    assert "<table>" in shown[-2]["data"]["text/html"]
    assert shown[-1]["data"]["text/html"].startswith("<iframe srcdoc=")


def test_a_line_of_a_cell_is_named_as_in_its_tracebacks() -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook()
    cells = [
        "import squall",
        "def fails(rank):\n    assert rank",
        "squall.run(fails, workers=1).problems[0]",
    ]
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbclient.NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3").execute()
    (said,) = (each.data["text/plain"] for each in notebook.cells[-1].outputs if "data" in each)
    assert said == "'rank 0: AssertionError:  at In[2]:2'"


def test_digests_are_the_same_in_every_process(tmp_path: Path) -> None:
    script = tmp_path / "trial.py"
    text = UNGUARDED.replace("ENGINE", "'port'").replace(
        "print(run", "print(run.digest); print(run"
    )
    script.write_text(text, encoding="utf-8")
    digests = {
        printed(tmp_path, "env", f"PYTHONHASHSEED={seed}", sys.executable, script).split()[0]
        for seed in (1, 2)
    }
    assert len(digests) == 1


def printed(folder: Path, *words: str | Path) -> str:
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.usefixtures("compiled_engine")
def test_the_compiled_engine_runs_the_same_functions() -> None:
    run = squall.run(train, workers=2, engine="torch")
    assert run.results == [(Seen(0, [2.0, 2.0, 2.0]), 0), (Seen(1, []), 1)]
    assert run.ok
    failed = squall.run(compare, workers=2, engine="torch")
    assert "assert [1, 2] == [1, 0]" in failed.errors[0].message
    assert failed.errors[0].line == compare.__code__.co_firstlineno + 2


@pytest.mark.usefixtures("compiled_engine")
def test_the_compiled_engine_says_what_cannot_come_to_its_processes() -> None:
    drawn = (n for n in range(10))
    run = squall.run(lambda rank: next(drawn), workers=1, engine="torch")
    assert run.errors[0].type == "NotCarriedError"
    assert "uses a builtins.generator of the process" in run.errors[0].message


def test_a_run_has_single_pictures_and_a_critical_path() -> None:
    def step(rank: int) -> None:
        if rank == 0:
            with dist_autograd.context() as context_id:
                x = torch.ones(2, requires_grad=True)
                y = rpc.rpc_sync("worker1", torch.mul, args=(x, 3))
                dist_autograd.backward(context_id, [y.sum()])

    run = squall.run(step, workers=2, join="worker{rank}")
    assert len(run.picture("space_time").data) > len(run.picture("graph").data) > 0
    path = run.critical_path()
    assert path is not None and 0 < path.total_s < run.virtual_time_s
    with pytest.raises(ValueError, match="expected one of 'space_time', 'graph'"):
        run.picture("space time")  # type: ignore[arg-type]


def _raises() -> None:
    raise AssertionError("told\nin full")


def _calls() -> None:
    rpc.rpc_sync("worker2", _raises)


def test_an_error_of_a_function_on_another_worker_is_told_with_its_own_place(
    engine: EngineName,
) -> None:
    def step(rank: int, function: Any) -> None:
        if rank == 0:
            rpc.rpc_sync("worker1", function)

    for function, worker in ((_raises, "worker1"), (_calls, "worker2")):
        options: dict[str, Any] = {"workers": 3, "args": (function,), "join": "worker{rank}"}
        (error,) = squall.run(step, engine=engine, **options).errors
        line = _raises.__code__.co_firstlineno + 1
        told = f"rank 0: AssertionError: told, raised on {worker} at {__file__}:{line}, called from {__file__}:"
        assert str(error).startswith(told)


def _day() -> int:
    days: dict[str, int] = {}
    return days["day-1"]


def test_a_missing_key_on_another_worker_is_told_in_a_line(engine: EngineName) -> None:
    def step(rank: int) -> None:
        if rank == 0:
            rpc.rpc_sync("worker1", _day)

    (error,) = squall.run(step, workers=2, engine=engine, join="worker{rank}").errors
    assert str(error).startswith("rank 0: KeyError: 'day-1', raised on worker1")
