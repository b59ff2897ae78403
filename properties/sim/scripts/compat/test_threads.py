"""``threading`` and what builds on it, from the standard library's own source, in virtual time.

Needs no torch: the same file is run by Python 3.12 and 3.13 where they are installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from squall.properties.support.paths import ROOT
from squall.real.tracing import NULL_TRACER
from squall.sim.scripts.compat.modules import ModuleSpace
from squall.sim.scripts.compat.program import ScriptFiles
from squall.sim.scripts.compat.substitutes import STANDARD, STANDARD_PRIVATE
from squall.sim.world.schedule import Order
from squall.sim.world.scheduler import SimRuntime

ORDERS: list[Order] = ["fifo", "random"]


def in_a_process(
    main: Callable[[Any], object], *, order: Order = "fifo", seed: int = 0
) -> tuple[Any, float]:
    """Call ``main(load)`` in a bare process; what it returns, and the virtual time at its end.

    ``load(name)`` imports as the process does.
    """
    runtime = SimRuntime(seed=seed, order=order)
    process = SimpleNamespace(
        threads=None, main_task=None, environ={}, exit_handlers=[], pid=1000, parent=None,
        exit_now=None, run_exit_handlers=None, signal_handlers={},
    )  # fmt: skip
    space = ModuleSpace(
        ScriptFiles(), runtime, substitutes=STANDARD, private=STANDARD_PRIVATE, process=process
    )
    worker: Any = SimpleNamespace(
        name="w", locals={}, modules=space, runtime=runtime, tracer=NULL_TRACER
    )
    result: list[object] = []

    def body() -> None:
        process.main_task = runtime.running
        result.append(main(space.load))
        threading = space.loaded.get("threading")
        if threading is not None:
            threading._shutdown()  # type: ignore[attr-defined]

    runtime.spawn(body, name="main", worker=worker, daemon=False)
    runtime.run(until_idle=False)
    assert runtime.stuck() == []
    return result[0], runtime.now()


Load = Callable[[str], Any]


@pytest.mark.parametrize("order", ORDERS)
def test_a_producer_and_a_consumer_meet_at_a_bounded_queue(order: Order) -> None:
    def main(load: Load) -> object:
        threading, queue, time = load("threading"), load("queue"), load("time")
        channel, eaten = queue.Queue(maxsize=2), []

        def cook() -> None:
            for dish in range(5):
                channel.put(dish)
                time.sleep(0.1)
            channel.put(None)

        def guest() -> None:
            while (dish := channel.get()) is not None:
                eaten.append((dish, round(time.monotonic() - 1000, 2)))

        threads = [threading.Thread(target=each) for each in (cook, guest)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return eaten

    eaten, _ = in_a_process(main, order=order)
    assert eaten == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]


@pytest.mark.parametrize("order", ORDERS)
def test_timers_events_conditions_and_barriers_keep_virtual_time(order: Order) -> None:
    def main(load: Load) -> object:
        threading, time = load("threading"), load("time")
        rang = threading.Event()
        threading.Timer(2.5, rang.set).start()
        facts = [rang.wait(1), rang.wait(5), int(time.time()) - 1704067200]
        barrier, passed = threading.Barrier(3), []

        def walker(seconds: int) -> None:
            time.sleep(seconds)
            barrier.wait()
            passed.append(round(time.perf_counter() - 1000, 3))

        walkers = [threading.Thread(target=walker, args=(i,)) for i in range(3)]
        for each in walkers:
            each.start()
        for each in walkers:
            each.join()
        condition = threading.Condition()
        with condition:
            facts.append(condition.wait_for(lambda: False, timeout=0.5))
        semaphore = threading.Semaphore(1)
        facts += [semaphore.acquire(), semaphore.acquire(timeout=0.25), semaphore.acquire(False)]
        return facts, passed

    (facts, passed), end = in_a_process(main, order=order)
    assert facts == [False, True, 2, False, True, False, False]
    assert passed == pytest.approx([4.5, 4.5, 4.5], abs=1e-4)
    assert end == pytest.approx(5.25, abs=1e-4)


def test_the_importing_thread_need_not_be_the_main_one() -> None:
    def main(load: Load) -> object:
        names: list[str] = []
        thread = load("_thread")
        done = thread.allocate_lock()
        done.acquire()

        def first_to_import() -> None:
            threading = load("threading")
            names.append(threading.current_thread().name)
            names.append(threading.main_thread().name)
            done.release()

        thread.start_new_thread(first_to_import, ())
        done.acquire()
        threading = load("threading")
        names.append(threading.current_thread().name)
        # The thread that threading did not start is gone, and forgotten.
        load("time").sleep(0)
        return names, [each.name for each in threading.enumerate()]

    (names, alive), _ = in_a_process(main)
    assert names == ["Dummy-1", "MainThread", "MainThread"]
    assert alive == ["MainThread"]


def test_thread_locals_are_initialised_for_each_thread() -> None:
    def main(load: Load) -> object:
        threading = load("threading")

        class Account(threading.local):  # type: ignore[misc,name-defined]
            def __init__(self, start: int) -> None:
                self.money = start

        account, seen = Account(3), []
        account.money += 1

        def stranger() -> None:
            seen.append(account.money)
            account.other = 1

        thread = threading.Thread(target=stranger)
        thread.start()
        thread.join()
        return seen, account.money, hasattr(account, "other")

    assert in_a_process(main)[0] == ([3], 4, False)


def test_an_uncaught_error_of_a_thread_is_printed_and_ends_only_the_thread(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def main(load: Load) -> object:
        threading = load("threading")

        def clumsy() -> None:
            raise ValueError("dropped it")

        thread = threading.Thread(target=clumsy, name="waiter")
        thread.start()
        thread.join()
        return thread.is_alive()

    assert in_a_process(main)[0] is False
    err = capsys.readouterr().err
    assert "Exception in thread waiter:" in err and "ValueError: dropped it" in err


def test_locks_behave_as_pythons() -> None:
    def main(load: Load) -> object:
        threading = load("threading")
        lock = threading.Lock()
        with pytest.raises(RuntimeError, match="release unlocked lock"):
            lock.release()
        assert lock.acquire() and lock.locked() and not lock.acquire(blocking=False)
        assert not lock.acquire(timeout=0.1)
        with pytest.raises(ValueError, match="can't specify a timeout"):
            lock.acquire(False, 1)
        thread = threading.Thread(target=lock.release)  # by somebody else
        thread.start()
        thread.join()
        recursive = threading.RLock()
        with recursive, recursive:
            pass
        with pytest.raises(RuntimeError, match="cannot release un-acquired lock"):
            recursive.release()
        return lock.locked()

    assert in_a_process(main)[0] is False


def test_a_thread_pool_runs_its_work_side_by_side() -> None:
    def main(load: Load) -> object:
        futures, time = load("concurrent.futures"), load("time")

        def nap(seconds: float) -> float:
            time.sleep(seconds)
            return seconds

        with futures.ThreadPoolExecutor(3) as pool:
            jobs = [pool.submit(nap, seconds) for seconds in (0.3, 0.1, 0.2)]
            return [job.result() for job in futures.as_completed(jobs)]

    order, end = in_a_process(main)
    assert order == [0.1, 0.2, 0.3]
    assert end == pytest.approx(0.3, abs=1e-3)


def test_a_loop_that_polls_the_clock_makes_progress() -> None:
    def main(load: Load) -> object:
        threading, time = load("threading"), load("time")
        flag: list[int] = []
        threading.Thread(target=lambda: (time.sleep(0.001), flag.append(1))).start()
        start = time.time_ns()
        while not flag:
            assert time.time_ns() > start
        return time.strftime("%Y", time.gmtime())

    assert in_a_process(main)[0] == "2024"


def test_logging_and_entropy_belong_to_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    def main(load: Load) -> object:
        logging, real_stdout = load("logging"), sys.stdout
        logging.basicConfig(stream=real_stdout, format="%(asctime)s %(threadName)s %(message)s")
        logging.getLogger("a.b").warning("hello")
        return str(load("uuid").uuid4()), load("random").random(), load("secrets").token_hex(4)

    first, second = in_a_process(main)[0], in_a_process(main)[0]
    assert first == second != in_a_process(main, seed=1)[0]
    assert "MainThread hello" in capsys.readouterr().out
    assert sys.modules["logging"].getLogger("a.b").handlers == []


def test_the_type_of_reentrant_locks_is_in_the_private_module_too() -> None:
    def main(load: Any) -> object:
        threading = load("threading")
        kind = load("_thread").RLock
        lock = kind()
        with lock, lock:
            pass
        return isinstance(threading.RLock(), kind)

    assert in_a_process(main)[0] is True


def test_real_modules_are_real_and_unknown_ones_raise() -> None:
    def main(load: Load) -> object:
        assert load("math") is sys.modules["math"]
        assert isinstance(load("time"), ModuleType)
        assert "sleep" in dir(load("time")) and load("time").__name__ == "time"
        with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_thing'"):
            load("no_such_thing")
        return True

    assert in_a_process(main)[0]


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_same_holds_on_the_other_pythons(version: str) -> None:
    python = _other_python(version)
    if python is None:
        pytest.skip(f"no Python {version} with greenlet, simpy and pytest")
    root = ROOT
    done = subprocess.run(
        [
            str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest",
            "-c", os.devnull, f"--rootdir={root}", "-k", "not other_pythons", __file__,
        ],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def _other_python(version: str) -> Path | None:
    """An interpreter named by SQUALL_PYTHON_312 or SQUALL_PYTHON_313, if it can run this file."""
    named = os.environ.get(f"SQUALL_PYTHON_{version.replace('.', '')}")
    if named is None:
        return None
    probe = subprocess.run([named, "-c", "import greenlet, simpy, pytest"], capture_output=True)
    return Path(named) if probe.returncode == 0 else None


def test_the_standard_library_s_substitutes_import_no_torch() -> None:
    code = "import sys, squall.sim.scripts.compat.substitutes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
