"""Worker processes of the compiled engine: begun before they are needed, and not waited for at their
end."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

import pytest

from squall.sim.stock.fork_server import ForkServer, Process
from squall.sim.stock.shared import PROGRAMS, shared_fork_server

#: seconds for what takes milliseconds on a machine that nobody else uses
PATIENCE_S = 60.0
_ENTRY = "squall.sim.stock.guest:main"


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def has_asked(process: Process) -> bool:
    """Whether it has got as far as its first question."""
    return bool(select.select([process.link], [], [], PATIENCE_S)[0])


def ends(pid: int) -> bool:
    until = time.monotonic() + PATIENCE_S
    while runs(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not runs(pid)


@pytest.mark.usefixtures("compiled_engine")
def test_processes_begin_before_they_are_asked_for_and_their_end_is_not_waited_for() -> None:
    with ForkServer(["squall.sim.stock.guest"]) as fork_server:
        first, second = fork_server.fork(_ENTRY, rank=0), fork_server.fork(_ENTRY, rank=0)
        fork_server.discard(first)
        assert first.exit_code is None
        assert first not in fork_server.live
        assert fork_server.kill(second) == -9
        assert first.exit_code == -9  # replies come in the order of what was asked
        assert ends(first.pid)
        assert ends(second.pid)

        assert fork_server.fork(_ENTRY, again=True, rank=0).pid
        assert len(fork_server.live) == 1  # one alone may be all that is wanted
        second = fork_server.fork(_ENTRY, again=True, rank=0)
        _, _, next = fork_server.live
        assert has_asked(next)
        assert fork_server.fork(_ENTRY, rank=1) is not next  # it was asked for in other words
        third = fork_server.fork(_ENTRY, again=True, rank=0)
        assert third is next
        pids = {process.pid for process in fork_server.live}
        assert len(pids - {0}) >= 4
        assert second.pid != third.pid
    assert all(map(ends, pids - {0}))


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


@pytest.mark.usefixtures("compiled_engine")
def test_torch_is_imported_once_for_all() -> None:
    fork_servers = [shared_fork_server(PROGRAMS), shared_fork_server(("squall.sim.stock.guest",))]
    workers = [fork_server.fork(_ENTRY, rank=0) for fork_server in fork_servers]
    first, other = (parent(worker.pid) for worker in workers)
    assert first != other and parent(first) == parent(other)
    assert parent(parent(first)) == os.getpid()
    for fork_server, worker in zip(fork_servers, workers, strict=True):
        assert fork_server.kill(worker) == -9


@pytest.mark.usefixtures("compiled_engine")
def test_another_test_of_pytest_does_not_start_it_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "one")
    shared = shared_fork_server(PROGRAMS)
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "two")
    monkeypatch.setenv("SQUALL_STORE", "elsewhere")
    monkeypatch.chdir("/")
    assert shared_fork_server(PROGRAMS) is shared
