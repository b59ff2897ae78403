"""What decided a failure: what is told beside the lines, which properties/why has programs for."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import pytest

import squall
from squall.model.events.run import Run, Violation
from squall.sim.library import why as library_why
from squall.sim.library.ported import Ported, kinds
from squall.sim.library.run import scenario_of
from squall.sim.library.why import Cause
from squall.sim.names import EngineName
from squall.sim.scenario import Scenario
from squall.sim.scripts.read_script import read_script
from squall.sim.search.replay_with_mutant import again
from squall.sim.search.why.always import hints
from squall.sim.search.why.cause import why
from squall.sim.search.why.doing import Doing, called
from squall.sim.search.why.executed import Executed, Lines, Stored
from squall.sim.search.why.matched import _taken
from squall.sim.search.why.order import Order
from squall.sim.search.why.search import Search
from squall.sim.search.why.seen import Call
from squall.sim.search.why.told import Line, Why
from squall.sim.search.why.touched import both, touches
from squall.sim.search.why.witness import Witness
from squall.sim.world.places import CodePlace, is_library
from squall.sim.world.steering import Steering, Tail, Turn
from squall.sim.world.values import shown

RACE = """
import os
import torch.distributed.rpc as rpc

seen = {"n": 0}


def read():
    return seen["n"]


def write(n):
    seen["n"] = n


rank = int(os.environ["RANK"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3)
if rank:
    n = rpc.rpc_sync("worker0", read)
    rpc.rpc_sync("worker0", write, args=(n + 1,))
rpc.shutdown()
if rank == 0:
    assert seen["n"] == 2, seen
"""


@pytest.fixture(scope="module")
def race(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("race")
    script = folder / "race.py"
    script.write_text(RACE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SQUALL_STORE", str(folder / "store"))
        yield script


@pytest.fixture(scope="module")
def explained(race: Path) -> Cause:
    return why_of(race)


def why_of(script: Path, workers: int = 3, **options: float) -> Cause:
    found = squall.fuzz(script, workers=workers, seeds=20, **options).finding  # type: ignore[arg-type]
    assert found is not None and found.why is not None
    return found.why


def test_the_order_the_values_and_a_run_that_passes_are_told(race: Path, explained: Cause) -> None:
    why = explained
    assert why.verdict == "order" and {place.line for place in why.places} == {9, 13, 19, 20}
    reads = {line.result for line in why.failing if line.what == "read()"}
    assert reads == {"0"}, "both have read the same"
    assert [line.result for line in why.passing if line.what == "read()"] == ["0", "1"]
    assert why.problems[0] in str(why) and why.said[0] in str(why)
    assert why.to_json()["places"][0]["file"] == str(race)


LOCKS = """
import os, threading
import torch.distributed.rpc as rpc

lock = threading.Lock()


def deposit(amount):
    with lock:
        return amount


def transfer(amount, to):
    with lock:
        return rpc.rpc_sync(to, deposit, args=(amount,), timeout=0)


rank = int(os.environ["RANK"])
rpc.init_rpc(f"bank{rank}", rank=rank, world_size=2)
transfer(10 + rank, f"bank{1 - rank}")
rpc.shutdown()
"""


def test_a_hang_has_the_values_of_variables_and_what_calls_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    script = tmp_path / "locks.py"
    script.write_text(LOCKS, encoding="utf-8")
    why = why_of(script, workers=2)
    assert [tuple(each) for each in why.waiting] == [
        ("locks.py:15", "bank0", {"amount": "10", "to": "'bank1'"}),
        ("locks.py:15", "bank1", {"amount": "11", "to": "'bank0'"}),
        ("locks.py:9", "`deposit` on bank1", {"amount": "10"}),
    ]
    assert "at locks.py:15, bank0: amount = 10, to = 'bank1'" in str(why)
    assert {line.state for line in why.failing} == {"waits for `lock`"}
    assert {line.state for line in why.passing} == {""}


def test_a_call_that_came_too_late_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has run where it fails: its column has what should have."""
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    script = tmp_path / "late.py"
    script.write_text(LATE, encoding="utf-8")
    why = why_of(script, workers=2)
    assert [(line.what, line.state) for line in why.failing] == [("report(7)", "never ran")]
    assert [(line.what, line.state) for line in why.passing] == [("report(7)", "")]


LATE = """
import os, time
import torch.distributed.rpc as rpc

reports = []


def report(value):
    reports.append(value)


rank = int(os.environ["RANK"])
rpc.init_rpc(f"node{rank}", rank=rank, world_size=2)
if rank:
    rpc.rpc_async("node0", report, args=(7,))
else:
    time.sleep(0.002)
    assert reports[0] == 7
rpc.shutdown()
"""


def test_the_same_failure_is_told_the_same_way(race: Path, explained: Cause) -> None:
    assert str(why_of(race)) == str(explained)


def test_both_runs_are_drawn_up_to_where_they_part_and_from_there(explained: Cause) -> None:
    (failing, passing), parted = explained.shown, explained.event
    assert failing.run.records[:parted] == passing.run.records[:parted]
    first, second = (failing.marks[event] for event in sorted(failing.marks))
    assert [passing.marks[event] for event in sorted(passing.marks)] == [second, first]
    assert first in " ".join(explained.said) and min(failing.marks) >= parted

    page = explained.timeline(plotly="cdn").html
    assert "race.py" in page and all(line in unescape(page) for line in explained.said)
    names = {trace.name for trace in explained.picture().data}
    assert {f"1: {first}", f"2: {second}"} <= names


MIXED = """
import os
import threading
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
sums = torch.ones(2), torch.full((2,), 5.0)


def first():
    dist.all_reduce(sums[0])


def second():
    dist.all_reduce(sums[1])


threads = [threading.Thread(target=each) for each in (first, second)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sums[0].tolist() == [2, 2], sums[0]
"""


def test_collectives_that_do_not_go_together_are_told_by_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    script = tmp_path / "mixed.py"
    script.write_text(MIXED, encoding="utf-8")
    found = squall.fuzz(script, workers=2, seeds=60).finding
    assert found is not None and found.why is not None
    assert found.why.said[0].startswith("Collective 1 of the group is `all_reduce` at")
    assert {place.line for place in found.why.places} >= {12, 16}


USES = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
store = dist.PrefixStore("run", dist.TCPStore("localhost", 29577, 2, rank == 0))
if rank == 0:
    dist.recv(torch.zeros(1))
    store.add("steps", 1)
    store.add("steps", 0)
    store.set("stop", "1")
else:
    dist.send(torch.ones(1), dst=0)
    store.get("stop")
    store.set("stop", "2")
    store.wait(["stop"])
    store.compare_set("steps", "2", "3")
    store.delete_key("steps")
dist.destroy_process_group()
"""


@pytest.mark.sampled(1)
def test_uses_of_keys_and_receives_from_any_rank_are_seen_on_each_engine(
    tmp_path: Path, engine: EngineName
) -> None:
    script = tmp_path / "uses.py"
    script.write_text(USES, encoding="utf-8")
    seen = Witness()
    run = again(replace(scenario_of(script, workers=2), engine=engine), watcher=seen)
    assert not run.errors
    uses = [
        (each.worker, each.used.method, each.part, each.how, each.used.place.line)
        for each in seen.lines.done
        if isinstance(each, Stored)
    ]
    assert uses == [
        (0, "add", "presence", "write", 10),
        (0, "add", "value", "add", 10),
        (0, "add", "value", "read", 11),
        (0, "set", "presence", "write", 12),
        (0, "set", "value", "write", 12),
        (1, "get", "value", "read", 15),
        (1, "set", "value", "write", 16),
        (1, "wait", "presence", "read", 17),
        (1, "compare_set", "value", "read", 18),
        (1, "delete_key", "presence", "write", 19),
        (1, "delete_key", "value", "write", 19),
    ]
    assert {each.used.key for each in seen.lines.done if isinstance(each, Stored)} == {
        "run/steps",
        "run/stop",
    }
    ((_, (receive, sent)),) = _taken(seen)
    assert receive.is_from_any and receive.place.line == 9 and receive.worker == 0
    assert sent.place.line == 14 and sent.worker == 1


def test_the_end_of_the_time_leaves_what_is_known(race: Path) -> None:
    run = squall.fuzz(race, workers=3, seeds=20, shrink_s=0).finding
    assert run is not None and run.why is None
    why = squall.why(run.small, seconds=1e-3)
    assert (why.verdict, why.out_of_time) == ("unknown", True)


POLLING = """
import os
import torch.distributed.rpc as rpc

done = []


def over():
    done.append(1)


rank = int(os.environ["RANK"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
if rank:
    rpc.rpc_sync("worker0", over)
while rank == 0 and not done:
    rpc.rpc_sync("worker1", abs, args=(1,))
rpc.shutdown()
"""


def test_who_asks_and_asks_does_so_more_and_more_slowly(tmp_path: Path) -> None:
    """Else a run in which somebody polls until something slow has come makes 200,000 calls, and takes minutes."""
    script = tmp_path / "polling.py"
    script.write_text(POLLING, encoding="utf-8")
    path = (Turn(0, Tail("workers", order=(0, 1))),)
    run = again(scenario_of(script, workers=2), watcher=Steering(path), seconds=20)
    assert run.outcome == "ok"
    assert len(run.records) < 30_000


def test_the_time_for_all_ends_a_run_and_what_is_counted_has_run(
    race: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []

    def too_long(scenario: Scenario, *, watcher: Steering, seconds: float) -> Run:
        if isinstance(watcher, Witness):
            return again(scenario, watcher=watcher, seconds=seconds)
        limits.append(seconds)
        search._until = 0.0
        run = Run([])
        run.crash = "it was still running"
        return run

    monkeypatch.setattr("squall.sim.search.why.search.again", too_long)
    search = Search(scenario_of(race, workers=3), lambda run: False, 5.0)
    search.run()
    assert search.out_of_time
    assert (search.orders, search.failed, search.runs) == (0, 0, 0)
    assert limits[0] <= 5.0 and len(limits) == 1


LEAKS = """
import os
import torch
import torch.distributed.rpc as rpc

log, kept = [], []


def add(n):
    log.append(n)
    kept.append(ask(n))
    os.environ.setdefault(f"KEY{n}", "1")


def ask(n):
    return MAKES


rank = int(os.environ["RANK"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
if rank == 0:
    for n in range(4):
        add(n)
    RAISES
rpc.shutdown()
"""


@pytest.mark.parametrize(
    ("makes", "raises", "grows"),
    [
        ('rpc.remote("worker1", abs, args=(n,))', 'raise ValueError("many")', True),
        ('rpc.rpc_sync("worker1", abs, args=(n,))', 'raise ValueError("wrong")', False),
        ('rpc.rpc_sync("worker1", abs, args=(n,))', "assert not kept", False),
        ('rpc.rpc_sync("worker1", abs, args=(n,))', "raise MemoryError", True),
    ],
)
def test_what_grows_is_told_of_leaks_alone(
    makes: str, raises: str, grows: bool, tmp_path: Path
) -> None:
    """Neither what keeps plain values, as a log of numbers does, nor what is not the program's own."""
    script = tmp_path / "leaks.py"
    script.write_text(LEAKS.replace("MAKES", makes).replace("RAISES", raises), encoding="utf-8")
    witness = Witness()
    with witness.lines.noted():
        run = again(scenario_of(script, workers=2), watcher=witness)
    told = [each.text for each in hints(run, witness, {}) if "grows" in each.text]
    assert (
        told
        == ["`kept` grows: things are put into it at leaks.py:11, and never taken out."] * grows
    )


CONTEXTS = """
import os
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

rank = int(os.environ["RANK"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
if rank == 0:
    with dist_autograd.context() as first:
        pass
    with dist_autograd.context():
        rpc.rpc_sync("worker1", dist_autograd.get_gradients, args=(ASKED,))
rpc.shutdown()
"""


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            "first",
            "The context with that id, which was begun at contexts.py:9, was over: its `with` had ended.",
        ),
        ("1 << 50", f"Nobody has begun a context with the id {1 << 50}."),
    ],
)
def test_a_context_that_is_not_there_is_told_with_the_line_that_began_it(
    asked: str, told: str, tmp_path: Path
) -> None:
    script = tmp_path / "contexts.py"
    script.write_text(CONTEXTS.replace("ASKED", asked), encoding="utf-8")
    witness = Witness()
    with witness.lines.noted():
        run = again(scenario_of(script, workers=2), watcher=witness)
    assert told in [each.text for each in hints(run, witness, {})]
    own = {call.name for call in witness.calls.values() if not call.is_users and call.function}
    assert own == {"init_rpc", "get_gradients", "shutdown"}, (
        "functions of the library are called what the script calls"
    )


DIED = """
import os
import threading
import torch.distributed.rpc as rpc

got = []


def work():
    got.append(rpc.rpc_sync("worker1", abs, args=(1,)) / 0)


rank = int(os.environ["RANK"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
if rank == 0:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert got == [1]
rpc.shutdown()
"""


def test_an_error_that_has_ended_a_thread_is_told_first(tmp_path: Path) -> None:
    script = tmp_path / "died.py"
    script.write_text(DIED, encoding="utf-8")
    found = why(scenario_of(script, workers=2), lambda run: list(map(str, run.errors)), seconds=0)
    assert re.fullmatch(
        r"Thread Thread-1.* of worker0 raised ZeroDivisionError: division by zero, at died.py:10\.",
        found.said[0],
    ), found.said
    assert found.places[0].line == 10


def test_a_call_of_a_proxy_has_its_line(tmp_path: Path) -> None:
    """``rref.rpc_async()`` asks for the type first, and calls when that has come."""
    script = tmp_path / "proxies.py"
    script.write_text(PROXIES, encoding="utf-8")
    witness = Witness()
    again(scenario_of(script, workers=2), watcher=witness)
    called = [each for each in witness.calls.values() if each.function == ".append"]
    assert [each.place.line for each in called] == [8, 9, 10]


PROXIES = """
import os
import torch.distributed.rpc as rpc
rank = int(os.environ["RANK"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
if rank == 0:
    items = rpc.remote("worker1", list)
    items.rpc_async().append(1).wait()
    items.rpc_sync().append(2)
    items.remote().append(3).to_here()
rpc.shutdown()
"""


def test_the_command_that_runs_squall_is_none_of_the_users_files() -> None:
    assert is_library(f"{sysconfig.get_path('scripts')}/squall")


def test_two_calls_of_one_line_are_told_apart(explained: Cause) -> None:
    """By their arguments, or else by which one it is."""
    run, calls, _ = explained.shown[0]
    reads = [call for call in calls if call.function == "read"]
    order = object.__new__(Order)
    order._failing = SimpleNamespace(calls={call.key: call for call in reads})  # type: ignore[assignment]
    place = reads[0].place

    def who(*arguments: str) -> list[str]:
        made = [
            Call(1, 0, id, 5, "PYTHON_CALL", place, "read", given)
            for id, given in enumerate(arguments, 1)
        ]
        order._failing.calls = {call.key: call for call in made}
        order.first, order.second = (
            Doing("runs", 0, called(call, run.names), "ran", 0, call) for call in made
        )
        return [order._told_apart(each).who for each in (order.first, order.second)]

    assert who("1", "2") == [f"`read({n})` of worker1 ({place})" for n in (1, 2)]
    assert who("1", "1") == [f"call {n} of `read` of worker1 ({place})" for n in (1, 2)]


def test_pytorchs_own_function_is_told_in_words() -> None:
    call = Call(1, 0, 1, 5, "PYTHON_CALL", CodePlace("train.py", 8), "_local_optimizer_step")
    assert called(call, {1: "trainer"}) == "the optimizer's step of trainer (train.py:8)"


def test_a_run_that_passes_has_no_cause() -> None:
    with pytest.raises(ValueError, match="nothing is wrong"):
        squall.why(squall.run(lambda rank: rank, workers=2))


def of_function(text: str, tmp_path: Path, name: str) -> list[Executed]:
    """All lines of a module's function, as if they had been executed."""
    file = tmp_path / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    code = compile(text, str(file), "exec").co_consts[0]
    return [Executed(0, 0, code, line) for line in range(1, text.count("\n") + 1)]


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("return jobs[1]", "jobs[1] = 2", "jobs"),
        ("jobs.append(1)", "return len(jobs)", "jobs"),
        ("return x.total", "x.total = 1", "total"),
        ("return jobs[1]", "return jobs[2]", None),  # nobody changes it
        ("x = 1", "x = 2", None),  # a variable of each one's own
        ("jobs = [1]\n    jobs.append(2)", "jobs[1] = 2", None),
    ],
)
def test_what_both_touch_is_shared_and_changed(
    one: str, other: str, shared: str | None, tmp_path: Path
) -> None:
    seen = Lines(lambda: (0, 0))
    first = touches(of_function(f"def f(x):\n    {one}\n", tmp_path, "one"), seen)
    second = touches(of_function(f"def g(x):\n    {other}\n", tmp_path, "other"), seen)
    found = both(first, second, keys=False)
    assert (None if found is None else found.name) == shared


def test_values_are_short_and_run_nothing_of_the_users() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("a value was asked for its text")

    assert shown([1, "a", Loud()]) == "[1, 'a', <Loud>]"
    assert len(shown(list(range(1000)))) < 80


def test_another_failure_of_the_port_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "raises.py"
    script.write_text("raise ValueError(3)\n", encoding="utf-8")
    ported = Scenario(work=read_script(script, ()))
    for same in (True, False):
        answer = Ported(ported, same, ["left behind: 1 RRef"])
        monkeypatch.setattr(library_why, "on_port", lambda *_, answer=answer, **__: answer)
        found = library_why.cause_of(replace(ported, engine="torch"))
        too = "(Told of the engine port, where it fails, too.)"
        otherwise = "On the engine port it fails otherwise: "
        assert (too in found.said, found.said[0].startswith(otherwise)) == (same, not same)
        assert (found.problems == ["left behind: 1 RRef"]) != same


def test_a_failure_is_the_same_if_what_is_told_first_is() -> None:
    left = Violation("contexts", "a context was left", "0", "2")
    raised = Violation("script", "a process raised AssertionError", "none", "rank 0: 3")
    assert kinds(Run(script="a.py", violations=[left])) == {("contexts", "a context was left")}
    assert kinds(Run(script="a.py", violations=[left, raised])) == {
        ("script", "a process raised AssertionError")
    }


def test_what_is_the_same_in_both_runs_is_told_once() -> None:
    line = Line("ps", "trainer1", "shutdown()", "", "train.py:8")
    one = Why(verdict="fault", said=["It was lost."], failing=[line], passing=[line])
    assert str(one).count("shutdown()") == 1 and "this run, and one that passes" in str(one)
    other = replace(one, failing=[line._replace(state="never ran")])
    assert str(other).count("shutdown()") == 2 and "shutdown()  (never ran)" in str(other)
