"""Loops that poll come to an end, whatever they ask; those that cannot are told."""

from __future__ import annotations

import marshal
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

from squall.properties.sim.scripts.test_processes import run
from squall.real.native import build
from squall.sim.names import EngineName
from squall.sim.scripts.rounds import NAME, code_of
from squall.sim.world.busy_loop import limited

GROUP = """
import os, queue, sys, threading, time
import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from torch._C._distributed_rpc import _is_current_rpc_agent_set as is_set

box, came, noted = queue.Queue(), threading.Event(), []
FLAG = os.path.join(os.path.dirname(__file__), "flag")

def tell(what):
    time.sleep(0.05)
    {"qsize": lambda: box.put(3), "is_set": came.set, "len": lambda: noted.append(3),
     "exists": lambda: open(FLAG, "w").close()}[what]()

def join():
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    return rank

"""
#: what is waited for, and what is asked meanwhile
ASKED = {
    "qsize": "box.qsize() == 0",
    "is_set": "not came.is_set()",
    "len": "not noted",
    "exists": "not os.path.exists(FLAG)",
}


def in_group(body: str) -> str:
    return f"{GROUP}if __name__ == '__main__':\n    rank = join()\n{body}\n    rpc.shutdown()\n"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", ASKED)
@pytest.mark.parametrize("engine", ["port", "torch"])
def test_what_another_worker_brings_is_seen(
    tmp_path: Path, engine: EngineName, what: str, compiled_engine: None
) -> None:
    body = f"""
    if rank == 1:
        while {ASKED[what]}:
            pass
        print("came")
    else:
        rpc.rpc_sync("w1", tell, args=({what!r},))
"""
    found, said = run(tmp_path, engine, in_group(body), workers=2)
    assert (found.errors, found.waits, said) == ([], [], "came\n")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "asked",
    [
        "future = rpc.rpc_async('w1', time.sleep, args=(0.5,))\n        while not future.done(): pass",
        "ref = rpc.remote('w1', time.sleep, args=(0.5,))\n        while not ref.confirmed_by_owner(): pass",
        "end = time.monotonic() + 5\n        while time.monotonic() < end: pass",
        "thread = threading.Thread(target=time.sleep, args=(1,))\n        thread.start()\n        while thread.is_alive(): pass",
        "threading.Timer(1, noted.append, (3,)).start()\n        for _ in iter(lambda: len(noted), 1): pass",
    ],
)  # fmt: skip
@pytest.mark.parametrize("engine", ["port", "torch"])
def test_what_torch_and_python_answer_changes(
    tmp_path: Path, engine: EngineName, asked: str, compiled_engine: None
) -> None:
    body = f"    if rank == 0:\n        {asked}\n        print('came')"
    found, said = run(tmp_path, engine, in_group(body), workers=2)
    assert (found.errors, found.waits, said) == ([], [], "came\n")


@pytest.mark.parametrize("engine", ["port", "torch"])
def test_a_store_is_asked_less_often_than_memory(
    tmp_path: Path, engine: EngineName, compiled_engine: None
) -> None:
    body = """
    store, asked = dist.TCPStore("127.0.0.1", 29533, 2, is_master=rank == 0), 0
    if rank == 0:
        time.sleep(100)
        store.set("come", "")
    while not store.check(["come"]):
        asked += 1
    print(0 < asked < 5000 if rank else "")"""
    found, said = run(tmp_path, engine, in_group(body), workers=2)
    assert (found.errors, said.split()) == ([], ["True"])


def test_runs_with_polls_are_equal(tmp_path: Path) -> None:
    body = "    while time.time() < 1_704_067_201 or not noted: noted.append(1)"
    digests = {run(tmp_path, "port", in_group(body), workers=2)[0].digest for _ in range(2)}
    assert len(digests) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["port", "torch"])
def test_a_loop_without_end_is_told(
    tmp_path: Path, engine: EngineName, compiled_engine: None
) -> None:
    body = "    if rank == 0:\n        while not came.is_set():\n            pass"
    with limited(1.0):
        found, _ = run(tmp_path, engine, in_group(body), workers=2)
    (error,) = found.errors
    assert (error.type, error.rank) == ("Livelock", 0)
    assert "while not came.is_set()" in error.message and "times" in error.message
    assert "that could change it" in error.message and "w1" in error.message


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["port", "torch"])
def test_small_parts_of_the_api(tmp_path: Path, engine: EngineName, compiled_engine: None) -> None:
    source = f"""{GROUP}
seen = [is_set()]
rank = join()
states = rpc.AllGatherStates()
seen += [is_set(), states.gathered_objects, states.proceed_signal.is_set()]
clocks = time.time, time.perf_counter, time.monotonic, time.process_time
seen.append(all(clock() < clock() for clock in clocks))
rpc.shutdown()
print(*seen, is_set())
"""
    found, said = run(tmp_path, engine, source, workers=2)
    assert (found.errors, said) == ([], 2 * "False True {} False True False\n")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["port", "torch"])
def test_a_batch_of_sends_and_receives(
    tmp_path: Path, engine: EngineName, compiled_engine: None
) -> None:
    source = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
mine, other = torch.tensor([float(rank)]), torch.zeros(1)
ops = [dist.P2POp(dist.isend, mine, 1 - rank), dist.P2POp(dist.irecv, other, group_peer=1 - rank)]
for work in dist.batch_isend_irecv(ops):
    work.wait()
said = [other.item() == 1 - rank]
for wrong in (lambda: dist.P2POp(dist.send, mine, 0), lambda: dist.batch_isend_irecv(None)):
    try:
        wrong()
    except ValueError as error:
        said.append(str(error).split(".")[0])
print(*said)
"""
    found, said = run(tmp_path, engine, source, workers=2)
    assert (found.errors, said) == ([], 2 * "True Invalid ``op`` Invalid ``p2p_op_list``\n")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SourceFileLoader:
    """Somebody's module with a loop, and a folder for what is kept."""
    monkeypatch.setenv("SQUALL_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "looping.py"
    file.write_text("n = 0\nwhile n < 3:\n    n += 1\n", encoding="utf-8")
    return SourceFileLoader("looping", str(file))


def rounds_in(code: CodeType | None) -> int:
    assert code is not None
    seen: list[None] = []
    exec(code, {NAME: lambda: seen.append(None)})
    return len(seen)


def test_counted_code_of_a_module_is_kept_until_it_is_another(module: SourceFileLoader) -> None:
    folder = build.directory() / "counted"
    assert rounds_in(code_of(module)) == 3
    (file,) = folder.iterdir()
    kept = file.read_bytes()
    assert code_of(module) == code_of(module)
    Path(module.path).write_text("n = 0\nwhile n < 4:\n    n += 1\n", encoding="utf-8")
    assert rounds_in(code_of(module)) == 4
    assert [each.read_bytes() != kept for each in folder.iterdir()] == [True]


def test_kept_code_is_read(module: SourceFileLoader) -> None:
    code_of(module)
    (file,) = (build.directory() / "counted").iterdir()
    of_what = file.read_bytes()[:32]
    file.write_bytes(of_what + marshal.dumps(compile("", module.path, "exec")))
    assert rounds_in(code_of(module)) == 0


def test_what_python_warns_of_is_told_each_time(module: SourceFileLoader) -> None:
    Path(module.path).write_text("n = 0\nwhile n is 0:\n    n += 1\n", encoding="utf-8")
    for _ in range(2):
        with pytest.warns(SyntaxWarning, match='"is" with'):
            assert rounds_in(code_of(module)) == 1
    assert not (build.directory() / "counted").exists()


def test_where_nothing_can_be_kept_modules_are_imported_all_the_same(
    module: SourceFileLoader, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    assert rounds_in(code_of(module)) == rounds_in(code_of(module)) == 3
