"""What a process of a script does and finds, as under stock Python, on either engine."""

from __future__ import annotations

import io
from pathlib import Path

from squall.model.events.run import Run
from squall.properties.support.playing import write
from squall.properties.support.scripts import run_file
from squall.sim.names import EngineName


def run(
    folder: Path, engine: EngineName, source: str, *args: str, workers: int | None = None
) -> tuple[Run, str]:
    """A script of this text, and what it printed."""
    printed = io.StringIO()
    script = write(folder, source)
    found = run_file(script, *args, engine=engine, workers=workers, stdout=printed, stderr=printed)
    return found, printed.getvalue()


def test_what_is_registered_at_exit_runs(tmp_path: Path, engine: EngineName) -> None:
    """Last registered first, after threads, and before children are waited for; also after an
    exception, and not in a forked child."""
    source = """
        import atexit, multiprocessing, sys, threading, time

        def child():
            atexit.register(print, "never said by a fork")
            print("child")

        if __name__ == "__main__":
            atexit.register(print, "first")
            atexit.register(print, "second")

            def late():
                time.sleep(1)
                print("thread")

            threading.Thread(target=late).start()
            if sys.argv[1] == "fork":
                multiprocessing.get_context("fork").Process(target=child).start()
            if sys.argv[1] == "raise":
                raise ValueError("not today")
            if sys.argv[1] == "exit":
                sys.exit(3)
    """
    found, said = run(tmp_path, engine, source, "exit")
    assert said.split() == ["thread", "second", "first"]
    assert list(found.exit_codes.values()) == [3]
    found, said = run(tmp_path, engine, source, "raise")
    assert said.split()[-3:] == ["thread", "second", "first"]
    assert [error.type for error in found.errors] == ["ValueError"]
    found, said = run(tmp_path, engine, source, "fork")
    assert sorted(said.split()) == ["child", "first", "second", "thread"]


def test_a_folder_may_have_names_that_squall_has_too(tmp_path: Path, engine: EngineName) -> None:
    for name in ("real", "model", "properties", "squall"):
        write(tmp_path, f"NAME = 'my {name}'", f"{name}.py")
    write(tmp_path, "NAME = 'my sim'", "sim/__init__.py")
    source = """
        import real, model, properties, sim
        from torch.distributed import rpc
        print(real.NAME, model.NAME, properties.NAME, sim.NAME)
    """
    found, said = run(tmp_path, engine, source)
    assert (found.errors, said) == ([], "my real my model my properties my sim\n")
