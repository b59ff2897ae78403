"""What ``subprocess`` starts runs in the simulation, and does there what it does outside."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from squall.properties.support.playing import write
from squall.properties.support.scripts import run_file
from squall.sim.names import EngineName
from squall.sim.scripts.python_command import CannotRun, PythonCommand, read

PACKAGE = {
    "worker.py": """
        import os, sys
        print(os.path.basename(sys.argv[0]), sys.argv[1:], os.environ.get("COLOR"), __name__, os.path.basename(os.getcwd()))
        sys.exit(int(sys.argv[1]))
    """,
    "elsewhere/by_folder.py": "import os, beside; print(beside.NAME, os.path.basename(os.getcwd()))",
    "elsewhere/beside.py": "NAME = 'beside'",
    "mine/__init__.py": "",
    "mine/part.py": "from . import other; import sys; print(__name__, __package__, sys.argv[1:], other.X)",
    "mine/other.py": "X = 5",
    "echo.py": """
        import sys
        for line in sys.stdin:
            print("got", line.strip(), flush=True)
    """,
}

STARTS = """
    import os, signal, subprocess, sys, tempfile, time
    here = os.path.dirname(os.path.abspath(__file__))
    os.chdir(here)
    python = sys.executable
    PIPE, run = subprocess.PIPE, subprocess.run

    def said(*words, **options):
        done = run([python, *words], capture_output=True, text=True, **options)
        lines = done.stderr.splitlines()
        return done.returncode, done.stdout, lines[-1] if lines else ""

    def show(*what):
        print(*what, flush=True)

    show(said("worker.py", "0", "a b"), said("-u", "./worker.py", "3", env={**os.environ, "COLOR": "red"}))
    show(said("by_folder.py", cwd="elsewhere"), os.path.basename(os.getcwd()) == os.path.basename(here))
    show(said("-m", "mine.part", "q"), said("-c", "import sys; print(sys.argv, __name__)", "x"))
    show(said("-c", "import sys; print(input().upper(), sys.stdin.read())", input="one\\ntwo")[0::2])
    show(said("-c", "1 / 0")[0::2], said("nofile.py")[0::2])
    show(subprocess.check_output([python, "-c", "import sys; sys.stdout.buffer.write(bytes([1, 255]))"]))
    for call in (subprocess.check_call, subprocess.check_output):
        try:
            call([python, "worker.py", "4"])
        except subprocess.CalledProcessError as error:
            show(error.returncode, error.cmd[1:])
    began = time.monotonic()
    try:
        run([python, "-c", "import time; print('x', flush=True); time.sleep(3)"], timeout=1, capture_output=True)
    except subprocess.TimeoutExpired as error:
        show("too late", error.timeout, 0.9 < time.monotonic() - began < 3)
    sleeper = subprocess.Popen([python, "-c", "import time; time.sleep(9)"])
    show(sleeper.poll(), sleeper.terminate(), sleeper.wait(), sleeper.poll(), sleeper.returncode)
    with subprocess.Popen([python, "echo.py"], stdin=PIPE, stdout=PIPE, text=True) as echo:
        for word in ("a", "b"):
            echo.stdin.write(word + "\\n")
            echo.stdin.flush()
            show(echo.stdout.readline().strip())
        echo.stdin.close()
        show(echo.wait(), repr(echo.stdout.read()))
    with tempfile.TemporaryFile("w+") as file:
        subprocess.call([python, "-c", "print('into a file')"], stdout=file)
        subprocess.call([python, "-c", "import sys; print('and', file=sys.stderr)"], stderr=file)
        file.seek(0)
        show(file.read().split())
    both = run([python, "-c", "import sys; print(1, flush=True); print(2, file=sys.stderr)"], stdout=PIPE, stderr=subprocess.STDOUT)
    show(both.stdout, run([python, "-c", "print(3)"], stdout=subprocess.DEVNULL).stdout)
    nested = f"import subprocess; subprocess.run(['{python}', '-c', 'print(4)']); print(5)"
    show(sorted(said("-c", nested)[1].split()))
    show(subprocess.getoutput(f"C='a b' {python} -c 'import os; print(os.getenv(chr(67)))' a"))
    show(os.system(f"{python} worker.py 6") >> 8)
    os.chmod("direct.py", 0o755)
    show(run(["./direct.py", "7"], stdout=PIPE, text=True).stdout)
    show(said("--version")[1][:7], run(["echo", "8"], stdout=PIPE).stdout)
    subprocess.Popen([python, "-c", "import time; time.sleep(0.2); print('left alone', flush=True)"]).wait()
"""

RANKS = """
    import os, subprocess, sys

    def train(rank):
        import torch
        import torch.distributed.autograd as dist_autograd
        import torch.distributed.rpc as rpc
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
        if rank == 0:
            x = torch.ones(2, requires_grad=True)
            with dist_autograd.context() as context_id:
                loss = rpc.rpc_sync("w1", torch.mul, args=(x, 3)).sum()
                dist_autograd.backward(context_id, [loss])
                print(dist_autograd.get_gradients(context_id)[x].tolist())
        rpc.shutdown()

    if __name__ == "__main__":
        if sys.argv[1:]:
            train(int(sys.argv[1]))
        else:
            environ = {**os.environ, "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
            words = [sys.executable, __file__]
            ranks = [
                subprocess.Popen([*words, str(n)], stdout=subprocess.PIPE, text=True, env=environ)
                for n in range(2)
            ]
            print([rank.communicate()[0] for rank in ranks], [rank.returncode for rank in ranks])
"""


def folder(tmp_path: Path) -> Path:
    for name, text in PACKAGE.items():
        write(tmp_path, text, name)
    write(tmp_path, f"#!{sys.executable}\nimport sys; print('direct', sys.argv[1:])", "direct.py")
    return write(tmp_path, STARTS)


def test_a_program_runs_as_it_does_outside(tmp_path: Path, engine: EngineName) -> None:
    script, before = folder(tmp_path), os.getcwd()
    stock = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    out = io.StringIO()
    found = run_file(script, engine=engine, stdout=out, stderr=io.StringIO())
    assert out.getvalue().splitlines() == stock.stdout.splitlines()
    assert [error.type for error in found.errors] == ["ZeroDivisionError"]
    assert (found.processes.failed, os.getcwd()) == ([], before)


def test_ranks_meet_on_the_simulated_network(tmp_path: Path, engine: EngineName) -> None:
    script, out = write(tmp_path, RANKS), io.StringIO()
    runs = [run_file(script, engine=engine, stdout=out, stderr=out) for _ in range(2)]
    assert out.getvalue() == "['[3.0, 3.0]\\n', ''] [0, 0]\n" * 2
    for found in runs:
        assert (found.errors, found.workers, found.waits) == ([], 2, [])
        assert found.gradients is not None and found.gradients.compared == 1
    assert runs[0].digest == runs[1].digest


def test_a_line_says_what_python_runs() -> None:
    python = sys.executable
    assert read([python, "-uOW", "error", "-X", "dev", "a.py", "-c"]) == PythonCommand(
        "script", "a.py", ("-c",)
    )
    assert read([python, "-Ic", "x = 1", "-m"]) == PythonCommand("code", "x = 1", ("-m",))
    assert read("A=1 python3.11 -m a.b 'c d'", shell=True) == PythonCommand(
        "module", "a.b", ("c d",), (("A", "1"),)
    )
    assert read(b"python", shell=False, executable="/bin/echo") is None
    assert read(["ignored", "a.py"], executable=python) == PythonCommand("script", "a.py")
    assert read("git log | head; echo $PYTHONPATH", shell=True) is None
    assert read(["env", "A=1", "ls"]) is None
    for line in (
        "python a.py > log",
        "python a.py &",
        "time python a.py",
        "$(which python) a.py",
        "torchrun a.py",
    ):
        with pytest.raises(CannotRun):
            read(line, shell=True)
