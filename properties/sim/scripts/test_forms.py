"""A program has one verdict, whoever starts its ranks."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from squall.properties.support.playing import write
from squall.sim.library.run import Run, run
from squall.sim.names import EngineName

RANKS = """
    import os, sys
    import torch.distributed.rpc as rpc

    def main(rank, how):
        os.environ.setdefault("MASTER_ADDR", "localhost")
        os.environ.setdefault("MASTER_PORT", "29500")
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=3)
        if rank == 1:
            if how == "raise":
                raise ValueError("of rank 1")
            sys.exit(3) if how == "exit" else os._exit(3)
        rpc.shutdown()

    if __name__ == "__main__":
        main(int(sys.argv[1]), sys.argv[2])
"""
FORMS = {
    "spawn": """
        import sys, ranks
        import torch.multiprocessing as mp
        if __name__ == "__main__":
            mp.spawn(ranks.main, args=(sys.argv[1],), nprocs=3)
    """,
    "fork": """
        import sys, ranks
        import torch.multiprocessing as mp
        if __name__ == "__main__":
            mp.start_processes(ranks.main, args=(sys.argv[1],), nprocs=3, start_method="fork")
    """,
    "multiprocessing": """
        import sys, ranks
        import multiprocessing as mp
        if __name__ == "__main__":
            started = [mp.Process(target=ranks.main, args=(rank, sys.argv[1])) for rank in range(3)]
            for each in started: each.start()
            for each in started: each.join()
            sys.exit(max(abs(each.exitcode) for each in started))
    """,
    "subprocess": """
        import os, subprocess, sys
        file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks.py")
        words = [sys.executable, file]
        started = [subprocess.Popen([*words, str(rank), sys.argv[1]]) for rank in range(3)]
        if any(codes := [each.wait() for each in started]):
            raise SystemExit(f"codes {codes}")
    """,
    "torchrun": """
        import os, sys, ranks
        ranks.main(int(os.environ["RANK"]), sys.argv[1])
    """,
}


def verdict(found: Run) -> tuple[str, str, tuple[str, str]]:
    """The outcome, the first line, and what makes two failures one."""
    first = found.violations[0]
    return found.outcome, found.problems[0], (first.property, first.what)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["exit", "at once", "raise"])
def test_a_rank_that_leaves_is_told_first(
    tmp_path: Path, how: str, engine: EngineName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows from it is told after it: whoever waits, what its parent raises, whom torchrun ends."""
    ranks = write(tmp_path, RANKS, "ranks.py")
    line = 11 if how == "raise" else 12
    told = "ValueError: of rank 1" if how == "raise" else "ended with exit code 3"
    what = "a process raised ValueError" if how == "raise" else "a process failed"
    said = f"rank 1: {told}" if how == "raise" else f"rank 1 {told}"
    forms: dict[str, Path | Callable[..., object]] = {
        name: write(tmp_path, text, f"{name}_form.py") for name, text in FORMS.items()
    }
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ranks", raising=False)
    forms["function"] = importlib.import_module("ranks").main
    for name, form in forms.items():
        found = run(form, args=(how,), workers=3, seed=0, engine=engine, stdout=io.StringIO())
        expected = "error", f"{said} at {ranks}:{line}", ("script", what)
        assert verdict(found) == expected, (name, found.problems)
        assert not any("-15" in each for each in found.problems)


def test_a_child_without_a_rank_is_for_its_parent_to_judge(tmp_path: Path) -> None:
    source = """
        import sys
        import multiprocessing as mp
        if __name__ == "__main__":
            child = mp.get_context("spawn").Process(target=sys.exit, args=(3,))
            child.start()
            child.join()
            raise ValueError("of its own")
    """
    found = run(write(tmp_path, source), seed=0, stdout=io.StringIO())
    assert [error.type for error in found.errors] == ["ValueError"]
