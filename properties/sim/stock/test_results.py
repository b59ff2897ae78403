"""What comes of collectives on the engine ``torch``: a backend that is wrong is found out, and so is a script that
writes to tensors which an operation still has."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from squall.model.events.run import Run
from squall.properties.support.scripts import script_scenario
from squall.sim.scenarios.engines import ENGINES
from squall.sim.stock.digests import Elements
from squall.sim.stock.results import first_wrong
from squall.sim.stock.results_guest import MemberReport

HEAD = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, other = dist.get_rank(), 1 - dist.get_rank()
values = torch.tensor([rank + 1.0, 5.0])
"""
#: the line after which an operation has been told of, and what it does then that it may not
WRITES = {
    "all_reduce 1": "work = dist.all_reduce(values, async_op=True); values += rank; work.wait()",
    "all_gather 2": "into = [values, values.clone()]; "
    "work = dist.all_gather(into, values.clone(), async_op=True); into[other].zero_(); work.wait()",
    "broadcast 3": "work = dist.broadcast(values, 1, async_op=True); values[rank] = 7; work.wait()",
    "send 0": "work = dist.isend(values, other) if rank else dist.irecv(values, other); "
    "values[1] = rank; work.wait()",
}
RIGHT = """
dist.all_reduce(values); values += 1
work = dist.all_reduce(values, async_op=True); work.wait(); values += 1
work = dist.isend(values, other) if rank else dist.irecv(values, other)
torch.add(values, 1)
work.wait()
values += 1
both = [dist.isend(values, other) if rank else dist.irecv(values, other) for _ in range(2)]
[work.wait() for work in both]
"""
#: a defect of the backend, with a collective in which it shows
PLANTED = """
from squall.sim.scripts import collectives
from squall.sim.stock import group_guest

kept = {name: vars(module)[name] for module, names in ((collectives, ("reduced", "put")), (group_guest, ("unpacked", "Packed")))
        for name in names}
def plant(**wrong):
    for module in (collectives, group_guest): vars(module).update({**kept, **wrong})

plant(reduced=lambda tensors, op, **_: tensors[0])
dist.all_reduce(values)
def half(tensors, op, into, **_): into[:1] = kept["reduced"](tensors, op)[:1]; return into
plant(reduced=half)
dist.all_reduce(torch.tensor([1.0, rank]), dist.ReduceOp.MAX)
plant(put=lambda into, values: kept["put"](into, values[::-1]))
dist.all_gather([values.clone(), values.clone()], values + rank)
plant(unpacked=lambda *sent: [each + 1 for each in kept["unpacked"](*sent)])
dist.broadcast(values, 1)
dist.scatter(values, [values, values + 1] if rank == 0 else None)
def stale(*given, sent=[]): sent.append(kept["Packed"](*given)); return sent[(len(sent) - 1) % 2]
plant(Packed=stale)
into = torch.empty(1)
for n in range(2):
    dist.reduce_scatter_tensor(into, torch.tensor([n + 1.0, 2.0 + rank]))
plant()
dist.all_to_all_single(torch.empty(2), torch.tensor([rank + 2.0, 9.0]))
"""


@pytest.mark.usefixtures("compiled_engine")
def test_tensors_that_are_written_to_too_early_are_told(tmp_path: Path) -> None:
    run = _run(tmp_path, HEAD + "\n".join(WRITES.values()), go_on=True)
    texts = run.process_groups.found["tensor overwritten"]
    assert run.outcome == "tensor overwritten" and "wrong result" not in run.process_groups.found
    for line, what in enumerate(WRITES, start=8):
        told = [
            text
            for text in texts
            if text.startswith(f"{what} of the default process group, called at ")
        ]
        assert told and all(f"script.py:{line}: " in text for text in told)
    assert {text.partition(" of ")[0] for text in texts} == set(WRITES)
    assert _run(tmp_path, HEAD + RIGHT).process_groups.found == {}


@pytest.mark.usefixtures("compiled_engine")
def test_a_backend_that_is_wrong_is_found_out(tmp_path: Path) -> None:
    run = _run(tmp_path, HEAD + PLANTED, go_on=True)
    assert (run.outcome, run.process_groups.results_compared) == ("wrong result", 8)
    found = [text.partition(" of ")[0] for text in run.process_groups.found["wrong result"]]
    right = ("reduce_scatter 6", "all_to_all 8")
    kinds = ("all_reduce 1", "all_reduce 2", "all_gather 3", "broadcast 4", "scatter 5")
    assert found == [*kinds, "reduce_scatter 7"] and not set(right) & set(found)


def _told(
    *pairs: tuple[list[float], list[float]], op: str, precision: float
) -> dict[int, MemberReport]:
    return {
        rank: MemberReport({"op": op}, precision, [_elements(given)], [_elements(got)], True)
        for rank, (given, got) in enumerate(pairs)
    }


def _elements(values: list[float]) -> Elements:
    return "float64", np.array(values).tobytes()


def test_rounding_is_no_difference_and_a_lost_summand_is_one() -> None:
    got = [(0.1 + 0.2) + 0.3]
    given = [[0.1], [0.2], [0.3]]
    right = _told(*((each, got) for each in given), op="SUM", precision=2e-16)
    assert first_wrong("all_reduce", right, range(2)) == ""
    wrong = _told(*((each, [0.3]) for each in given), op="SUM", precision=2e-16)
    assert first_wrong("all_reduce", wrong, range(2)).startswith(
        "rank 0 has 0.3 at element 0 of part 0"
    )
    largest = _told(*((each, [0.3]) for each in given), op="MAX", precision=2e-16)
    assert first_wrong("all_reduce", largest, range(2)) == ""
    infinite = _told(([1e308], [np.inf]), ([1e308], [np.inf]), op="SUM", precision=2e-16)
    assert first_wrong("all_reduce", infinite, range(2)) == ""


def _run(folder: Path, text: str, **options: bool) -> Run:
    script = folder / "script.py"
    script.write_text(text, encoding="utf-8")
    scenario = script_scenario(script, workers=2, engine="torch", check=False)
    assert scenario.script is not None
    scenario = replace(scenario, work=replace(scenario.script, **options))
    printed = io.StringIO()
    run = ENGINES["torch"].run(scenario, stdout=printed, stderr=printed)
    assert not run.errors, printed.getvalue()
    return run
