"""Processes that go on before their turn: nothing shows whether they did."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from squall.properties.support.scripts import run_file
from squall.real.tracing import FAULT_INJECTED, PEER_ENDED
from squall.sim.faults.plan import NO_FAULTS, Pause, Plan
from squall.sim.stock.ahead import Ahead

pytestmark = pytest.mark.usefixtures("compiled_engine")

FOLDER = Path(__file__).parent / "groups"
#: with a plan one process at a time goes on, as a fault could come in between; this one comes too late
ONE_AT_A_TIME = Plan(workers=(Pause(worker=0, at_s=1e6, for_s=1.0),))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the processes that were told something before their turn."""
    names: list[str] = []
    look = Ahead.look

    def looked(self: Ahead) -> None:
        before = set(self._given)
        look(self)
        names.extend(worker.name for worker in self._given if worker not in before)

    monkeypatch.setattr(Ahead, "look", looked)
    return names


@pytest.mark.sampled(1)
@pytest.mark.parametrize("latency", ["0", "uniform:0.0001:0.01"])
def test_what_others_can_see_is_done_in_turn(
    tmp_path: Path, given: list[str], latency: str
) -> None:
    runs = []
    for name, plan in (("all", NO_FAULTS), ("one", ONE_AT_A_TIME), ("again", NO_FAULTS)):
        given.clear()
        folder, printed = tmp_path / name, io.StringIO()
        folder.mkdir()
        run = run_file(
            FOLDER / "seen_by_others.py",
            str(folder),
            stdout=printed,
            workers=4,
            engine="torch",
            latency=latency,
            faults=plan,
            check=False,
        )
        assert run.process_groups.operations > 80
        assert set(given) == (set() if plan else {f"process {number}" for number in range(4)})
        told = FAULT_INJECTED, PEER_ENDED  # of faults and ends, which only a plan with faults has
        records = [record for record in run.records if record[3] not in told]
        runs.append((records, printed.getvalue()))
    assert runs[0] == runs[1] == runs[2]
