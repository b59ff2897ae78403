"""A program has one verdict, whoever starts its ranks."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from squall.properties.support.paths import ROOT, SCRIPTS
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


#: how a program starts its ranks, in each form; what it calls for that is called ``start``
STARTS = {
    "spawn": """
        import torch.multiprocessing as mp

        def start(function, args=(), nprocs=1, join=True):
            with open(__file__ + ".size", "a") as file:
                print(nprocs, file=file)
            mp.spawn(ranked, args=(function, args), nprocs=nprocs)
    """,
    "fork": """
        import torch.multiprocessing as mp

        def start(function, args=(), nprocs=1, join=True):
            mp.start_processes(ranked, args=(function, args), nprocs=nprocs, start_method="fork")
    """,
    "multiprocessing": """
        import multiprocessing as mp

        def start(function, args=(), nprocs=1, join=True):
            context = mp.get_context("spawn")
            started = [context.Process(target=ranked, args=(n, function, args)) for n in range(nprocs)]
            for each in started: each.start()
            for each in started: each.join()
            if any(each.exitcode for each in started):
                sys.exit("a rank has failed")
    """,
    "subprocess": """
        import subprocess

        def start(function, args=(), nprocs=1, join=True):
            if "FORM_RANK" in os.environ:
                return ranked(int(os.environ["FORM_RANK"]), function, args)
            words = [sys.executable, *sys.argv]
            ranks = [dict(os.environ, FORM_RANK=str(n)) for n in range(nprocs)]
            started = [subprocess.Popen(words, env=each) for each in ranks]
            if any([each.wait() for each in started]):
                sys.exit("a rank has failed")
    """,
    "torchrun": """
        def start(function, args=(), nprocs=1, join=True):
            ranked(int(os.environ["RANK"]), function, args)
    """,
}
STARTS["function"] = STARTS["torchrun"]
#: those in which each process runs the whole of the program
OF_RANKS = ("subprocess", "torchrun", "function")
RANKED = """
import os, sys

def ranked(rank, function, args):
    function(rank, *args)
    if rank == 0 and FAILS:
        raise ValueError("in the end")
"""
#: the number of ranks of examples that torchrun starts
SIZE = 4


def form_of(script: Path, form: str, folder: Path, *, fails: bool) -> Path:
    """A copy of a script that starts its ranks in another way; ``fails``: the first one raises an error after all."""
    text = script.read_text(encoding="utf-8")
    if "mp.spawn(" in text:
        text = text.replace("mp.spawn(", "start(")
    else:
        text = text.replace("    main()\n", f"    start(rank_of_main, nprocs={SIZE})\n")
        text += dedent(f"""
            def rank_of_main(rank):
                os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="{SIZE}")
                os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29555")
                main()
        """)
    # A function of its own, so that it can be called; the main module calls it, too.
    name = f"{script.stem}_{form}_{fails}"
    text = text.replace('if __name__ == "__main__":', "def whole(rank=None):")
    text += '\nif __name__ == "__main__":\n    whole()\n'
    folder.mkdir()
    starts = dedent(STARTS[form]) + f"FAILS = {fails}\n"
    (folder / f"starts_{name}.py").write_text(RANKED + starts, encoding="utf-8")
    file = folder / f"{name}.py"
    head = f"from starts_{name} import os, ranked, start\n"
    first = '"""' + text.split('"""')[1] + '"""\n' if text.startswith('"""') else ""
    file.write_text(first + head + text[len(first) :], encoding="utf-8")
    return file


def played(
    script: Path, form: str, folder: Path, engine: EngineName, *, size: int, fails: bool
) -> Run:
    file = form_of(script, form, folder, fails=fails)
    given: Path | Callable[..., object] = file
    with pytest.MonkeyPatch.context() as patch:
        if form == "function":
            patch.syspath_prepend(folder)
            given = importlib.import_module(file.stem).whole
        patch.setattr(sys, "argv", [str(file)])
        workers = size if form in ("function", "torchrun") else None
        found = run(given, workers=workers, seed=0, engine=engine)
    return found


def scripts_of_forms() -> Iterator[Any]:
    """All but those that can have one form alone, on each engine that runs them."""
    for path in sorted([*SCRIPTS.glob("*.py"), *(ROOT / "examples").glob("*.py")]):
        text = path.read_text(encoding="utf-8")
        if "mp.spawn(" not in text and "torchrun --nproc" not in text:
            continue
        alone = "DistributedDataParallel" in text or "fully_shard" in text
        for engine in ("torch",) if alone else ("port", "torch"):
            yield pytest.param(path, engine, id=f"{path.parent.name}-{path.stem}-{engine}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(("script", "engine"), scripts_of_forms())
def test_each_script_has_one_verdict(
    tmp_path: Path, script: Path, engine: EngineName, fails: bool, compiled_engine: None
) -> None:
    """Also those that start again and again, and those of process groups."""
    size, once = 0, True
    for form in STARTS:
        if not once and form in OF_RANKS:
            continue  # each of its processes would start again and again: another program
        found = played(script, form, tmp_path / form, engine, size=size, fails=fails)
        if not size:
            (told,) = (tmp_path / form).glob("*.size")
            size, *more = map(int, told.read_text(encoding="utf-8").split())
            once = not more
        if not fails:
            assert found.ok and found.problems == [], (form, found.problems)
            continue
        error = found.errors[0]
        seen = found.outcome, error.rank, error.type, found.problems[0].rpartition(" at ")[0]
        assert seen == ("error", 0, "ValueError", "rank 0: ValueError: in the end"), form
        first = found.violations[0]
        assert (first.property, first.what) == ("script", "a process raised ValueError"), form
