"""What a process of a script does and finds, as under stock Python, on either engine."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from squall.model.checks.registry import check
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
    exception, and in a forked child from Python 3.13 on."""
    source = """
        import atexit, multiprocessing, sys, threading, time

        def child():
            atexit.register(print, "fork", flush=True)
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
    assert list(found.processes.exit_codes.values()) == [3]
    found, said = run(tmp_path, engine, source, "raise")
    assert said.split()[-3:] == ["thread", "second", "first"]
    assert [error.type for error in found.errors] == ["ValueError"]
    found, said = run(tmp_path, engine, source, "fork")
    forked = ["fork"] if sys.version_info >= (3, 13) else []
    assert sorted(said.split()) == ["child", "first", *forked, "second", "thread"]


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


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "call",
    [
        "subprocess.Popen([sys.executable, '-'])",
        "subprocess.run('cd / && python rank.py', shell=True)",
        "subprocess.call(['bash', '-c', 'RANK=1 python rank.py'])",
        "subprocess.run([sys.executable, '-m', 'torch.distributed.run', 'rank.py'])",
        "subprocess.run([sys.executable, '-m', 'json.tool'])",
        "subprocess.run([sys.executable, 'a.py'], preexec_fn=print)",
        "subprocess.check_output(['torchrun', 'rank.py'])",
        "os.popen('python3 rank.py')",
        "os.posix_spawn(sys.executable, [sys.executable, 'rank.py'], {})",
        "os.spawnv(os.P_WAIT, sys.executable, [sys.executable, 'rank.py'])",
        "os.execv(sys.executable, [sys.executable, __file__])",
        "os.execlp('true', 'true')",
    ],
)
def test_python_outside_of_the_simulation_is_refused(
    tmp_path: Path, engine: EngineName, call: str
) -> None:
    found, said = run(tmp_path, engine, f"import os, subprocess, sys\n{call}\nprint('never')")
    (error,) = found.errors
    assert error.type in ("RuntimeError", "CannotRun") and "never" not in said
    assert "outside of the simulation" in error.message or "would replace" in error.message


def test_other_programs_run(tmp_path: Path, engine: EngineName) -> None:
    source = "import subprocess\nprint(subprocess.run(['echo', '7'], capture_output=True).stdout)"
    assert run(tmp_path, engine, source)[1] == "b'7\\n'\n"


def test_a_signal_that_a_process_sends_itself_reaches_its_handler(
    tmp_path: Path, engine: EngineName
) -> None:
    source = """
        import os, signal
        signal.signal(signal.SIGUSR1, lambda number, frame: print("got", number))
        os.kill(os.getpid(), signal.SIGUSR1)
        print("went on")
    """
    found, said = run(tmp_path, engine, source)
    assert (found.errors, said) == ([], "got 10\nwent on\n")


def test_a_program_has_real_time_while_somebody_looks_after_it(
    tmp_path: Path, engine: EngineName
) -> None:
    source = """
        import subprocess, time
        program = subprocess.Popen(["sleep", "1"])
        began = time.monotonic()
        while program.poll() is None:
            time.sleep(0.25)
        print(program.returncode, time.monotonic() - began < 10)
        program = subprocess.Popen(["sleep", "0.2"])
        print(program.wait(timeout=30))
        try:
            subprocess.run(["sleep", "30"], timeout=0.2)
        except subprocess.TimeoutExpired as error:
            print(round(error.timeout, 1))
    """
    assert run(tmp_path, engine, source)[1] == "0 True\n0\n0.2\n"


def test_locks_of_files_are_waited_for_in_virtual_time(tmp_path: Path, engine: EngineName) -> None:
    source = f"""
        import fcntl, time
        import torch.distributed as dist
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        of_a_range = lambda file, how: fcntl.lockf(file, how, 10, 0)
        for lock in (fcntl.flock, fcntl.lockf, of_a_range):
            began = time.monotonic()
            with open({str(tmp_path / "lock")!r}, "w") as file:
                lock(file, fcntl.LOCK_EX)
                time.sleep(10)
                lock(file, fcntl.LOCK_UN)
            dist.barrier()
            print(19 < time.monotonic() - began < 25)
        dist.destroy_process_group()
    """
    found, said = run(tmp_path, engine, source, workers=2)
    assert (found.outcome, said) == ("ok", 6 * "True\n")


def test_a_signal_of_another_process_reaches_its_handler(
    tmp_path: Path, engine: EngineName
) -> None:
    """One that has none is ended by it."""
    source = """
        import multiprocessing, os, signal, time

        def work(handles):
            came = []
            if handles:
                signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
            began = time.monotonic()
            time.sleep(10)
            print(came, 10 <= time.monotonic() - began < 11)

        if __name__ == "__main__":
            for handles in (True, False):
                child = multiprocessing.get_context("spawn").Process(target=work, args=(handles,))
                child.start()
                time.sleep(5)
                os.kill(child.pid, signal.SIGTERM)
                child.join()
                print(child.exitcode)
    """
    found, said = run(tmp_path, engine, source)
    assert (found.errors, said) == ([], "[15] True\n0\n-15\n")


def test_alarms_end_what_waits_in_python(tmp_path: Path) -> None:
    source = """
        import queue, signal, threading, time
        def ring(number, frame): raise TimeoutError
        signal.signal(signal.SIGALRM, ring)
        began = time.monotonic()
        for wait in (
            lambda: time.sleep(1000),
            lambda: queue.Queue().get(timeout=1000),
            lambda: threading.Event().wait(1000),
            lambda: threading.Event().wait(),
        ):
            print(signal.setitimer(signal.ITIMER_REAL, 100), signal.alarm(100))
            try:
                wait()
            except TimeoutError:
                print(round(time.monotonic() - began))
        signal.alarm(10)
        time.sleep(1)
        print(signal.alarm(0), signal.getitimer(signal.ITIMER_REAL))
        rung = []
        signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
        signal.setitimer(signal.ITIMER_REAL, 0.5, 2)
        time.sleep(5)
        print(len(rung), round(time.monotonic() - began))
        signal.alarm(1000)
        signal.pause()
        print(len(rung) > 3)
    """
    found, said = run(tmp_path, "torch", source)
    waits = "".join(f"(0.0, 0.0) 100\n{100 * (number + 1)}\n" for number in range(4))
    assert (found.errors, said) == ([], waits + "9 (0.0, 0.0)\n3 406\nTrue\n")


def test_an_alarm_rings_in_virtual_time(tmp_path: Path, engine: EngineName) -> None:
    source = """
        import signal, time
        signal.signal(signal.SIGALRM, lambda number, frame: print("alarm", round(time.time() - began)))
        began = time.time()
        signal.alarm(3600)
        time.sleep(7200)
        print("end")
    """
    assert run(tmp_path, engine, source)[1] == "alarm 3600\nend\n"


def test_log_entries_go_through_a_queue(tmp_path: Path, engine: EngineName) -> None:
    source = """
        import logging, logging.handlers, queue, sys
        entries = queue.Queue()
        logger = logging.getLogger("mine")
        logger.setLevel(logging.INFO)
        logger.addHandler(logging.handlers.QueueHandler(entries))
        listener = logging.handlers.QueueListener(entries, logging.StreamHandler(sys.stdout))
        listener.start()
        logger.info("hello")
        listener.stop()
    """
    assert run(tmp_path, engine, source)[1] == "hello\n"


LOADER = """
    import sys
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Numbers(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return torch.full((2,), float(index))

    if __name__ == "__main__":
        loader = DataLoader(Numbers(), batch_size=4, num_workers=int(sys.argv[1]))
        print([batch.sum().item() for batch in loader])
"""


def test_a_data_loader_gives_what_it_gives_on_stock_pytorch(
    tmp_path: Path, engine: EngineName
) -> None:
    for workers in "02":
        assert run(tmp_path, engine, LOADER, workers)[1] == "[12.0, 44.0]\n"


def test_a_function_of_torchscript_is_called_on_another_worker(
    tmp_path: Path, engine: EngineName
) -> None:
    source = """
        import os, sys, torch
        import torch.distributed.rpc as rpc

        @torch.jit.script
        def more(x: torch.Tensor) -> torch.Tensor:
            return x * 2 + 1

        rank = int(os.environ["RANK"])
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
        if rank == 0:
            print(rpc.rpc_sync("w1", more, args=(torch.ones(1),)).item(),
                  rpc.remote("w1", more, args=(torch.ones(1),)).to_here().item())
        rpc.shutdown()
    """
    found, said = run(tmp_path, engine, source, workers=2)
    assert found.errors == [] and said.splitlines()[-1] == "3.0 3.0"


def test_a_function_of_torchscript_that_makes_calls_needs_pytorchs_engine(
    tmp_path: Path, engine: EngineName
) -> None:
    """Its calls are operators of the compiled engine: the port refuses it with what to do."""
    source = """
        import os, torch
        from torch import Tensor
        from torch.distributed import rpc
        from torch.futures import Future

        @torch.jit.script
        def twice(x: Tensor) -> Tensor:
            return x * 2

        @rpc.functions.async_execution
        @torch.jit.script
        def elsewhere(to: str, x: Tensor) -> Future[Tensor]:
            return rpc.rpc_async(to, twice, (x,))

        rank = int(os.environ["RANK"])
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=3)
        if rank == 0:
            print(rpc.rpc_sync("w1", elsewhere, args=("w2", torch.ones(1))).item())
        rpc.shutdown()
    """
    found, said = run(tmp_path, engine, source, workers=3)
    if engine == "port":
        assert "elsewhere is compiled to TorchScript and makes a call" in found.errors[0].message
        assert "--engine torch" in found.errors[0].message
    else:
        assert found.errors == [] and said.splitlines()[-1] == "2.0"


def test_what_torchscript_cannot_compile_fails_as_under_pytorch(
    tmp_path: Path, engine: EngineName
) -> None:
    source = """
        import warnings

        import torch

        warnings.simplefilter("ignore")  # of TorchScript's end, from torch 2.15 on

        def wrong(x):
            yield x

        try:
            torch.jit.script(wrong)
        except torch.jit.frontend.UnsupportedNodeError as error:
            print("yield" in str(error).lower())

        def outer():
            factor = 3

            @torch.jit.script
            def inner(x: torch.Tensor) -> torch.Tensor:
                return x * 3

            return inner

        print(outer()(torch.ones(1)).item())
    """
    found, said = run(tmp_path, engine, source)
    assert found.errors == [] and said.split() == ["True", "3.0"]


def test_each_process_registers_its_data_pipes(tmp_path: Path, engine: EngineName) -> None:
    """A module that registers one is imported by each process, as its class of that process."""
    source = """
        import multiprocessing as mp
        from torch.utils.data import IterDataPipe, functional_datapipe

        @functional_datapipe("doubled_by_us")
        class Doubled(IterDataPipe):
            def __init__(self, source):
                self.source = source

            def __iter__(self):
                return (2 * each for each in self.source)

        class Numbers(IterDataPipe):
            def __iter__(self):
                return iter(range(3))

        def main(name):
            print(name, list(Numbers().doubled_by_us()), type(Numbers().doubled_by_us()) is Doubled)

        if __name__ == "__main__":
            child = mp.get_context("spawn").Process(target=main, args=("child",))
            child.start()
            child.join()
            main("parent")
            try:
                functional_datapipe("doubled_by_us")(Doubled)
            except Exception as error:
                print("already taken" in str(error))
    """
    found, said = run(tmp_path, engine, source)
    assert found.errors == []
    assert said.splitlines() == ["child [0, 2, 4] True", "parent [0, 2, 4] True", "True"]


def test_spawned_processes_are_waited_for_as_outside(tmp_path: Path, engine: EngineName) -> None:
    source = """
        import sys, time
        import torch.multiprocessing as mp

        def child(i, how):
            time.sleep(1 + i)
            if how == "raise" and i == 1:
                raise ValueError("of child")
            if how == "exit" and i == 1:
                sys.exit(3)

        if __name__ == "__main__":
            for how in ("raise", "exit"):
                try:
                    mp.spawn(child, args=(how,), nprocs=2)
                except mp.ProcessRaisedException as error:
                    print(error.error_index, str(error).splitlines()[2], str(error).splitlines()[-1])
                except mp.ProcessExitedException as error:
                    print(error, error.exit_code)
            rounds, begun = 0, time.monotonic()
            context = mp.start_processes(child, args=("",), nprocs=2, join=False)
            while not context.join(timeout=0.4):
                rounds += 1
            took = time.monotonic() - begun
            print(rounds >= 4, 1.9 < took < 2.1, [process.exitcode for process in context.processes])
    """
    found, said = run(tmp_path, engine, source)
    (error,) = found.errors
    assert (error.type, error.message) == ("ValueError", "of child")
    assert [line for line in said.splitlines() if not line.startswith("W")] == [
        "1 -- Process 1 terminated with the following error: ValueError: of child",
        "process 1 terminated with exit code 3 3",
        "True True [0, 0]",
    ]


def test_tensors_are_arguments_of_processes(tmp_path: Path, engine: EngineName) -> None:
    """Among them a data set of a loader, views of one tensor, and one without elements."""
    source = """
        import sys, torch
        import torch.multiprocessing as mp
        from torch.utils.data import DataLoader, TensorDataset

        def main(loader, rows, none, weight):
            print(sum(float(each.sum()) for each, in loader), none.shape, weight.requires_grad)
            rows[0].fill_(7)
            print(rows[1].tolist())

        if __name__ == "__main__":
            whole = torch.arange(4.0)
            loader = DataLoader(TensorDataset(torch.ones(6, 2)), batch_size=4)
            weight = torch.nn.Parameter(torch.ones(2))
            if "shared" in sys.argv:
                weight.share_memory_()
            args = (loader, (whole[:2], whole), torch.empty(0, 3), weight)
            child = mp.get_context("spawn").Process(target=main, args=args)
            child.start()
            child.join()
    """
    for arguments in ((), ("shared",)):
        found, said = run(tmp_path, engine, source, *arguments)
        assert found.errors == []
        assert said.splitlines() == ["12.0 torch.Size([0, 3]) True", "[7.0, 7.0, 2.0, 3.0]"]


def test_a_group_whose_calls_have_no_limit_forms(tmp_path: Path, engine: EngineName) -> None:
    source = """
        import os, time
        import torch.distributed.rpc as rpc

        rank = int(os.environ["RANK"])
        time.sleep(20 * rank)
        options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=0)
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
        print(rpc.rpc_sync(f"w{1 - rank}", len, args=("ab",)))
        rpc.shutdown()
    """
    found, said = run(tmp_path, engine, source, workers=2)
    assert (found.errors, said) == ([], "2\n2\n")


def test_signals_of_a_process_are_handled_as_outside(tmp_path: Path) -> None:
    """Its own at once; what a handler raises beside a main thread that waits ends the process."""
    source = """
        import signal, sys, threading, time
        began = time.monotonic()
        def now(): return round(time.monotonic() - began, 1)
        def handler(number, frame): print(signal.Signals(number).name, now())
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            print("interrupted")
        for number in (signal.SIGKILL, 0):
            try:
                signal.signal(number, handler)
            except (OSError, ValueError) as error:
                print(error)
        def elsewhere():
            try:
                signal.signal(signal.SIGALRM, handler)
            except ValueError as error:
                print(error)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        signal.signal(signal.SIGALRM, handler)
        print(signal.setitimer(signal.ITIMER_REAL, 0.5, 2), signal.getitimer(signal.ITIMER_REAL))
        signal.pause()
        time.sleep(3)
        print(signal.alarm(0))
        signal.signal(signal.SIGALRM, lambda *_: sys.exit(5))
        signal.alarm(10)
        time.sleep(100)
    """
    found, said = run(tmp_path, "port", source)
    assert said.splitlines() == [
        "interrupted",
        "[Errno 22] Invalid argument",
        "signal number out of range",
        "signal only works in main thread of the main interpreter",
        "(0.0, 0.0) (0.5, 2.0)",
        "SIGALRM 0.5",
        "SIGALRM 2.5",
        "1",
    ]
    assert [(error.type, error.message) for error in found.errors] == [("Exited", "exit code 5")]
    assert 13 < found.ended_s < 14


def test_an_interrupt_of_its_own_ends_a_process_and_not_the_run(tmp_path: Path) -> None:
    source = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)"
    found, said = run(tmp_path, "port", source)
    assert [error.type for error in found.errors] == ["KeyboardInterrupt"]
    assert (found.broken_off, list(found.processes.exit_codes.values())) == ("", [-2])
    assert said.endswith("KeyboardInterrupt\n")


def test_tensors_are_shared_with_processes_that_are_started(
    tmp_path: Path, engine: EngineName
) -> None:
    source = """
        import torch, torch.multiprocessing as mp

        def add(rank, sums, module, plain):
            sums[rank] += rank + 1
            module.weight.data += 1
            plain += 1

        if __name__ == "__main__":
            sums, plain = torch.zeros(3).share_memory_(), torch.zeros(2)
            module = torch.nn.Linear(2, 1, bias=False)
            module.weight.data.zero_()
            module.share_memory()
            mp.spawn(add, (sums, module, plain), nprocs=2)
            child = mp.get_context("spawn").Process(target=add, args=(2, sums, module, plain))
            child.start()
            child.join()
            print(sums.tolist(), module.weight.tolist(), plain.tolist(), child.exitcode)
    """
    found, said = run(tmp_path, engine, source)
    assert (found.errors, said) == ([], "[1.0, 2.0, 3.0] [[3.0, 3.0]] [3.0, 3.0] 0\n")


ENDS_IN_A_CONTEXT = """
import os
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

def run(rank):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3)
    if rank == 0:
        x = torch.ones(2, requires_grad=True)
        with dist_autograd.context():
            try:
                rpc.rpc_sync("worker1", torch.add, args=(x, 1))
                END
            finally:
                print("unwound")
    else:
        time.sleep(WAIT)
    rpc.shutdown(graceful=False)

if __name__ == "__main__":
    import time
    processes = [mp.Process(target=run, args=(rank,)) for rank in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print([process.exitcode for process in processes])
"""


@pytest.mark.parametrize(
    ("end", "wait", "said"),
    [
        ("os._exit(3)", 1, ["[3, 0, 0]"]),
        ("sys.exit(3)", 1, ["unwound", "[3, 0, 0]"]),
        ("pass", 0, ["unwound", "[1, 0, 0]"]),
    ],
)
def test_a_process_that_ends_in_a_context_leaves_nothing_to_blame(tmp_path, end, wait, said):
    """Nor does one whose peers have left meanwhile: it tells all others of the release."""
    text = ENDS_IN_A_CONTEXT.replace("END", end).replace("WAIT", str(wait))
    text = text.replace("import os\n", "import os\nimport sys\nimport time\n")
    out = io.StringIO()
    ended = run_file(write(tmp_path, text), stdout=out, stderr=io.StringIO())
    assert out.getvalue().splitlines() == said
    told = [each for each in check(ended) if each.property != "script"]
    assert not told, told


def test_calls_that_a_group_gives_up_at_its_end_are_its_own(tmp_path: Path) -> None:
    """They end after their worker has joined the next group."""
    source = """
        import os, time
        import torch
        import torch.distributed.autograd as dist_autograd
        import torch.distributed.rpc as rpc
        import torch.multiprocessing as mp

        def nap():
            time.sleep(1)

        def run(rank):
            os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500")
            for graceful in (False, True):
                rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
                if rank == 0:
                    x = torch.ones(2, requires_grad=True)
                    with dist_autograd.context() as context_id:
                        loss = rpc.rpc_sync("worker1", torch.mul, args=(x, 2)).sum()
                        dist_autograd.backward(context_id, [loss])
                    rpc.rpc_async("worker1", nap)
                rpc.api._wait_all_workers(100.0)
                rpc.shutdown(graceful=graceful)

        if __name__ == "__main__":
            mp.spawn(run, nprocs=2)
    """
    found, _ = run(tmp_path, "port", source)
    assert not list(check(found))
