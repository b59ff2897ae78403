"""The agent beside TensorPipe: one script for each row of the table in ``docs/engines.md``, played by
real processes over TensorPipe and by the compiled engine on the simulated network."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from squall.properties.support.paths import DOCS, SCRIPTS
from squall.properties.support.scripts import script_scenario
from squall.properties.support.stock_group import StockGroup
from squall.sim.scripts.run import run_script as run_on_port
from squall.sim.stock.fork_server import ForkServer
from squall.sim.stock.script import run_script
from squall.sim.stock.shared import SCRIPTS as MODULES

FOLDER = Path(__file__).parent / "agent"
ROWS = sorted(path.stem for path in FOLDER.glob("*.py"))
_ROW = re.compile(r"^\| \[(\w+)\.py\]\([^)]*\) \|.*\| ([^|]+) \|$", re.M)
_TENSORPIPE = re.compile(r"RuntimeError: .*\(this error originated at tensorpipe/.*\)")
_CLOSED = ("the connection to worker 1 was closed", "worker 1 is not connected")
#: rows in which a lost connection has other words, and ours
DIFFERENT = {
    "after_a_shutdown_there": _CLOSED,
    "death_of_the_callee": _CLOSED,
    "shutdown_that_is_not_graceful": ("RPC was shut down on this worker before an answer came",),
}
#: seconds for the processes of a script on a busy machine
PATIENCE_S = 200
_LOST = "RuntimeError: (connection lost)"


@pytest.fixture(scope="module")
def stock() -> Iterator[StockGroup]:
    with StockGroup() as group:
        yield group


@pytest.fixture(scope="module")
def fork_server(compiled_engine: None) -> Iterator[ForkServer]:
    with pytest.MonkeyPatch.context() as environ:  # as of_stock has it
        environ.setenv("MASTER_ADDR", "127.0.0.1")
        environ.setenv("MASTER_PORT", "29500")
        with ForkServer(MODULES) as fork_server:
            yield fork_server


pytestmark = pytest.mark.sampled(1, of="the agent beside TensorPipe")


def said(text: str) -> dict[str, list[str]]:
    """What each worker printed, in its order."""
    lines = text.splitlines()
    return {name: [line for line in lines if line.startswith(name)] for name in ("w0:", "w1:")}


def of_stock(stock: StockGroup, file: Path) -> str:
    done = stock.run(file, workers=2, timeout_s=PATIENCE_S)
    assert done.ended, done.output
    return done.output


def of_ours(fork_server: ForkServer, file: Path) -> str:
    out, err = io.StringIO(), io.StringIO()
    scenario = script_scenario(file, engine="torch", check=False)
    run = run_script(scenario, stdout=out, stderr=err, fork_server=fork_server)
    assert run.waits == [], err.getvalue()
    return out.getvalue()


@pytest.mark.parametrize("row", ROWS)
def test_the_agent_does_as_tensorpipe_does(
    row: str, stock: StockGroup, fork_server: ForkServer
) -> None:
    theirs, ours = (
        of_stock(stock, FOLDER / f"{row}.py"),
        of_ours(fork_server, FOLDER / f"{row}.py"),
    )
    assert any(said(theirs).values())
    if row in DIFFERENT:
        assert said(theirs) != said(ours), "the table says that they differ"
        assert _TENSORPIPE.search(theirs)
        theirs = _TENSORPIPE.sub(_LOST, theirs)
        for text in DIFFERENT[row]:
            assert f"RuntimeError: {text}" in ours
            ours = ours.replace(f"RuntimeError: {text}", _LOST)
    assert said(theirs) == said(ours)


def test_the_table_has_a_row_for_each_script() -> None:
    rows = dict(_ROW.findall((DOCS / "engines.md").read_text(encoding="utf-8")))
    assert sorted(rows) == ROWS
    assert {row for row, ours in rows.items() if ours != "the same"} == DIFFERENT.keys()


def test_which_tensors_are_roots(stock: StockGroup, fork_server: ForkServer) -> None:
    """As docs/divergences.md says: in this the engines do not differ."""
    file = SCRIPTS / "roots_of_a_pass.py"
    out = io.StringIO()
    run_on_port(script_scenario(file, check=False), stdout=out, stderr=io.StringIO())
    theirs = said(of_stock(stock, file))
    assert theirs == said(of_ours(fork_server, file)) == said(out.getvalue())
    assert theirs["w0:"] == file.with_suffix(".expected").read_text(encoding="utf-8").splitlines()
