"""A hang is told by its cause, in the names and lines of whoever wrote the script."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from squall.properties.support.playing import write
from squall.properties.support.scripts import run_file
from squall.sim.names import EngineName

SCRIPT = """
    import os, queue, sys, threading, time
    from concurrent.futures import ThreadPoolExecutor
    import torch
    import torch.distributed.rpc as rpc

    class Account:
        def __init__(self):
            self.guard = threading.RLock()

    account, lock = Account(), threading.Lock()
    jobs, ready, pool = queue.Queue(), threading.Event(), ThreadPoolExecutor(1)

    def deposit():
        with lock:
            pass

    def one():
        with account.guard:
            time.sleep(1)
            with lock: pass

    def outer():
        return pool.submit(deposit).result()

    def ping(n):
        return n and rpc.rpc_sync(f"bank{1 - rank}", ping, args=(n - 1,), timeout=0)

    rank = int(os.environ.get("RANK", 0))
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=1)
    rpc.init_rpc(f"bank{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    BODY
    rpc.shutdown()
"""
CAUSES = {
    "calls and locks": (
        "with lock: time.sleep(1); rpc.rpc_sync(f'bank{1 - rank}', deposit, timeout=0)",
        "deadlock: bank0 holds `lock` (script.py:32) and waits for `deposit` on bank1 (script.py:32); that waits for "
        "`lock` of bank1 (script.py:15), which bank1 holds (script.py:32) while it waits for `deposit` on bank0 "
        "(script.py:32); that waits for `lock` of bank0 (script.py:15)",
    ),
    "threads": (
        "threading.Thread(target=one, name='one').start(); lock.acquire(); time.sleep(1); account.guard.acquire()",
        "deadlock: bank0 holds `lock` (script.py:32) and waits for `account.guard` (script.py:32), which thread "
        "`one` on bank0 holds (script.py:19) while it waits for `lock` (script.py:21)",
    ),
    "a lock twice": (
        "with lock: deposit()",
        "deadlock: bank0 holds `lock` (script.py:32) and waits for `lock` (script.py:15)",
    ),
    "a join": (
        "thread = threading.Thread(target=deposit, name='t'); lock.acquire(); thread.start(); thread.join()",
        "deadlock: bank0 holds `lock` (script.py:32) and waits for the end of thread `t` (script.py:32); thread `t` "
        "on bank0 waits for `lock` (script.py:15)",
    ),
    "a full pool": (
        "pool.submit(outer).result()",
        "deadlock: thread `ThreadPoolExecutor-0_0` on bank0 waits for the result of `pool.submit(deposit)` "
        "(script.py:24), for which no thread of the pool is free",
    ),
    "a worker of one thread": (
        "rank or rpc.rpc_sync('bank1', ping, args=(4,), timeout=0)",
        "deadlock: `ping` on bank1 waits for `ping` on bank0 (script.py:27); that waits for `ping` on bank1 "
        "(script.py:27), for which no thread of bank1 is free",
    ),
    "a queue": (
        "jobs.get() if rank else None",
        "hang: bank1 waits for something in `jobs` (script.py:32): nobody puts anything into it",
    ),
    "an event": (
        "ready.wait() if rank else None",
        "hang: bank1 waits for `ready` to be set (script.py:32): nobody sets it",
    ),
    "a future": (
        "future = torch.futures.Future(); rank or future.wait()",
        "hang: bank0 waits for `future` (script.py:32): nobody completes it",
    ),
    "a rank that has left": (
        "sys.exit() if rank else None",
        "hang: bank0 waits for bank1 to call `shutdown` (script.py:33): bank1 has ended",
    ),
}


@pytest.mark.parametrize("engine", ["port", "torch"])
@pytest.mark.parametrize("what", CAUSES)
def test_the_cause_comes_first(
    tmp_path: Path, what: str, engine: EngineName, compiled_engine: None
) -> None:
    body, cause = CAUSES[what]
    script, stderr = write(tmp_path, SCRIPT.replace("BODY", body)), io.StringIO()
    run = run_file(script, workers=2, stdout=io.StringIO(), stderr=stderr, engine=engine)
    assert (run.outcome, run.errors, run.why()[0]) == ("deadlock", [], cause)
    assert "Traceback" not in stderr.getvalue(), "who is ended at last says nothing"


WITHOUT_LINES = {
    "a lock that a call has taken": (
        "here.rpc_sync(timeout=0).take(); time.sleep(1); there.rpc_sync(timeout=0).take()",
        "deadlock: bank0 holds `self.guard` and waits for `take` on bank1 (script.py:31); that waits for `self.guard` "
        "of bank1 (script.py:11), which bank1 holds while it waits for `take` on bank0 (script.py:31); that waits for "
        "`self.guard` of bank0 (script.py:11)",
    ),
    "a thread that runs nothing of the user's": (
        "rank or threading.Thread(target=gate.wait, name='t').start()",
        "hang: thread `t` on bank0 waits for others at `gate` (script.py:31): 1 of 2 have come",
    ),
    "a lock that another thread has": (
        "key.acquire(); rank or threading.Thread(target=key.acquire, name='t').start(); rank or jobs.get()",
        "hang: thread `t` on bank0 waits for `key` (script.py:31), which bank0 holds (script.py:31) while it waits for "
        "something in `jobs` (script.py:31): nobody puts anything into it",
    ),
    "a lock that nothing in the line says who has": (
        "own = accounts[0].local_value().guard.acquire; rank or (own(), threading.Thread(target=accounts[0].local_value().take, name='t').start(), jobs.get())",
        "hang: thread `t` on bank0 waits for `self.guard` (script.py:11), which bank0 holds while it waits for something "
        "in `jobs` (script.py:31): nobody puts anything into it",
    ),
    "a future that a function has returned": (
        "rank or rpc.rpc_sync('bank1', promise, timeout=0)",
        "hang: bank0 waits for `promise` on bank1 (script.py:31): it has returned a future that nobody has completed",
    ),
    "a worker of one thread that waits": (
        "rank or (rpc.rpc_async('bank1', fetch, timeout=0), time.sleep(1), rpc.rpc_sync('bank1', account, timeout=0))",
        "hang: bank0 waits for `account` on bank1 (script.py:31), for which no thread of bank1 is free; `fetch` on "
        "bank1 waits for something in `jobs` (script.py:21): nobody puts anything into it",
    ),
}


#: the same where only stacks are known: not who has made a call that is over, and which function is over
OF_TORCH = {
    "a lock that a call has taken": (
        "hang: bank1 waits for `take` on bank0 (script.py:31); that waits for `self.guard` of bank0 (script.py:11): "
        "who has taken it has ended and not released it"
    ),
    "a future that a function has returned": (
        "hang: bank0 waits for `promise` on bank1 (script.py:31): no thread there works on it, and nobody completes its "
        "future"
    ),
}


@pytest.mark.parametrize("engine", ["port", "torch"])
@pytest.mark.parametrize("what", WITHOUT_LINES)
def test_who_has_what_is_told_where_no_line_of_the_user_says_so(
    tmp_path: Path, what: str, engine: EngineName, compiled_engine: None
) -> None:
    script = """
    import os, queue, threading, time
    from torch.futures import Future
    import torch.distributed.rpc as rpc

    class Account:
        def __init__(self):
            self.guard = threading.Lock()

        def take(self):
            self.guard.acquire()

    gate, key, jobs, accounts = threading.Barrier(2), threading.RLock(), queue.Queue(), []

    def account():
        if not accounts:
            accounts.append(rpc.RRef(Account()))
        return accounts[0]

    def fetch():
        return jobs.get()

    @rpc.functions.async_execution
    def promise():
        return Future()

    rank = int(os.environ.get("RANK", 0))
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=1)
    rpc.init_rpc(f"bank{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    here, there = account(), rpc.rpc_sync(f"bank{1 - rank}", account)
    BODY
    rpc.shutdown()
    """
    body, cause = WITHOUT_LINES[what]
    file = write(tmp_path, script.replace("BODY", body))
    run = run_file(file, workers=2, stdout=io.StringIO(), stderr=io.StringIO(), engine=engine)
    assert run.why()[0] == (cause if engine == "port" else OF_TORCH.get(what, cause))
    assert not any("ThreadLock" in line or "__getattr__" in line for line in run.why())
