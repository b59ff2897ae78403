"""What a worker keeps when all is over is found wherever it is, and without collecting garbage."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from squall.model.checks.registry import check
from squall.model.events import idle_state
from squall.model.events.run import Run
from squall.real.autograd import api as autograd
from squall.real.autograd.context import DistAutogradContext
from squall.real.autograd.functions import SendRpcBackward
from squall.real.autograd.graph_task import GraphTask
from squall.real.future import without_frames
from squall.real.ids import GlobalUniqueId
from squall.real.rpc import api as rpc
from squall.real.rpc.agent import RpcAgent
from squall.real.rpc.optimizer import DistributedOptimizer
from squall.real.rpc.py_rref import RRef
from squall.real.tracing import LEFT_BEHIND, STILL_ALIVE
from squall.real.worker import Worker, current_worker
from squall.sim.cluster import Cluster


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def refuse(_: object) -> None:
    raise ValueError("refused")


def step() -> None:
    with autograd.context() as context:
        leaf = torch.ones(2, requires_grad=True)
        there = rpc.remote(1, double, args=(leaf,))
        loss = (rpc.rpc_sync(1, double, args=(leaf,)) + there.to_here()).sum()
        autograd.backward(context, [loss])
        assert torch.equal(autograd.get_gradients(context)[leaf], torch.full((2,), 4.0))


def settled(main: Callable[[], None], spoil: Callable[[Worker], object] | None = None) -> Run:
    """A run of ``main`` on worker 0 of two, to which ``spoil`` did something in the end."""
    with Cluster(2, latency="constant:0.001") as cluster:
        cluster.run(lambda rank: main() if rank == 0 else None, shutdown=False, collect=False)
        if spoil is not None:
            spoil(cluster.workers[0])
        cluster.settle()
        run = Run(records=cluster.trace.records, workers=2)
        cluster.shutdown()
    return run


def told(run: Run) -> list[str]:
    """What property ``leftovers`` says, which must be all that is said."""
    found = check(run)
    assert {each.property for each in found} <= {"leftovers"}, found
    return [f"{each.what}: {each.seen}" for each in found]


def test_a_step_leaves_nothing_behind() -> None:
    assert told(settled(step)) == []


def test_a_table_that_nobody_has_named_is_looked_at() -> None:
    def spoil(worker: Worker) -> None:
        context: Any = worker.rref_context
        context.not_yet_heard_of = {7: "seven"}
        container: Any = worker.container
        container.rounds = 3

    assert sorted(told(settled(step, spoil))) == [
        "DistAutogradContainer.rounds at the end: 3",
        "RRefContext.not_yet_heard_of at the end: 1, the first 7",
    ]


def test_a_table_of_what_is_over_has_ids_only() -> None:
    def spoil(worker: Worker) -> None:
        container: Any = worker.container
        container._released[99] = object()

    assert [line.split(":")[0] for line in told(settled(step, spoil))] == [
        "DistAutogradContainer._released at the end"
    ]


def test_a_lock_that_is_held_is_told() -> None:
    def spoil(worker: Worker) -> None:
        agent = worker.agent
        assert isinstance(agent, RpcAgent)
        agent._in_flight.lock.acquire()

    with Cluster(2) as cluster:
        cluster.run(lambda _: None, shutdown=False)
        spoil(cluster.workers[0])
        cluster.settle()
        left = cluster.trace.of(LEFT_BEHIND)
        assert {event["where"] for event in left} == {"InFlight.lock", "Condition._lock"}


def test_what_only_a_cycle_keeps_is_told() -> None:
    def main() -> None:
        with autograd.context() as context_id:
            container = current_worker().container
            assert container is not None
            context: Any = container.retrieve_context(context_id)  # type: ignore[attr-defined]
            context.myself = context

    assert [line.split(":")[0] for line in told(settled(main))] == [
        "a DistAutogradContext outlives its use"
    ]


def test_a_received_tensor_that_is_kept_is_told() -> None:
    kept: list[torch.Tensor] = []
    run = settled(lambda: kept.append(rpc.rpc_sync(1, double, args=(torch.ones(3),))))
    assert told(run) == ["a Tensor outlives its use: 1, the first tensor([2., 2., 2.])"]


def test_a_pass_is_gone_without_a_collection() -> None:
    alive: list[weakref.ref[Any]] = []
    made = GraphTask.__init__

    def remember(task: GraphTask, *args: Any, **options: Any) -> None:
        made(task, *args, **options)
        alive.append(weakref.ref(task))

    def main() -> None:
        step()
        assert not gc.isenabled()
        # The root's part is over with its call; that of the other one with the release.
        assert alive[0]() is None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphTask, "__init__", remember)
        assert told(settled(main)) == []
    assert len(alive) == 2
    assert all(ref() is None for ref in alive)


def test_a_step_that_fails_keeps_no_parameters() -> None:
    def main() -> None:
        parameters = [rpc.remote(1, double, args=(torch.ones(2),))]
        with pytest.raises(ValueError, match="refused"):
            DistributedOptimizer(refuse, parameters)

    assert told(settled(main)) == []


class _TwoError(Exception):
    """Cannot be made from what ``copy`` finds in it."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(one + other)
        self.other = other


def test_an_error_that_is_kept_has_no_frames_whatever_it_is_made_from() -> None:
    with pytest.raises(_TwoError) as caught:
        raise _TwoError("a", "b")
    kept = without_frames(caught.value)
    assert kept is not caught.value
    assert (str(kept), kept.other, kept.__traceback__) == ("ab", "b", None)


def test_a_call_without_its_context_keeps_no_reference() -> None:
    def main() -> None:
        there: RRef[Any] = rpc.remote(1, double, args=(torch.ones(2, requires_grad=True),))
        with autograd.context() as context_id:
            future = there.rpc_async().sum()
            current_worker().container.release_context(context_id)  # type: ignore[union-attr]
            with pytest.raises(RuntimeError, match="autograd context"):
                future.wait()
            with autograd.context():
                pass

    def quietly() -> None:
        with pytest.raises(RuntimeError):
            main()

    assert told(settled(quietly)) == []


def test_names_are_of_attributes_that_there_are() -> None:
    """A table that is gone or has another name is not excused any more."""
    found: set[tuple[str, str]] = set()

    def look(worker: Worker) -> None:
        # A context and its send functions are looked at after a pass, while it is open.
        opened = DistAutogradContext(worker, -1), SendRpcBackward((), 0)
        objects: list[Any] = [worker, *opened]
        seen: set[int] = set()
        for obj in objects:
            names = [each.__name__ for each in type(obj).__mro__]
            if id(obj) in seen or not type(obj).__module__.startswith("squall.real."):
                continue
            seen.add(id(obj))
            slots = [s for each in type(obj).__mro__ for s in each.__dict__.get("__slots__", ())]
            attributes = [*slots, *getattr(obj, "__dict__", ())]
            found.update((name, attribute) for name in names for attribute in attributes)
            objects += [getattr(obj, attribute, None) for attribute in attributes]

    settled(step, look)
    named = idle_state.KEPT.keys() | idle_state.REMEMBERED.keys() | idle_state.COUNTED.keys()
    assert not named - found


def test_events_are_told_only_of_what_is_left() -> None:
    assert not settled(step).of(LEFT_BEHIND, STILL_ALIVE)


def test_what_is_left_is_told_in_the_same_words_each_time() -> None:
    """Events have a part in the digest of a run, so no address of this process is in them."""

    class Thing:
        pass

    def spoil(worker: Worker) -> None:
        agent: Any = worker.agent
        agent.things = {Thing() for _ in range(3)}
        agent.more = [Thing(), GraphTask]
        worker.locals["thing"] = [Thing()]

    texts = [
        [values for *_, values in map(run.records.__getitem__, run.of(LEFT_BEHIND, STILL_ALIVE))]
        for run in (settled(step, spoil), settled(step, spoil))
    ]
    assert texts[0] == texts[1] and len(texts[0]) >= 3
    assert "Thing object>" in str(texts[0]) and "0x" not in str(texts[0])


def test_a_group_that_was_left_is_gone() -> None:
    """Its agent, its references and what they were about, without a collection of garbage."""
    with Cluster(2, latency="constant:0.001") as cluster:
        cluster.run(lambda rank: step() if rank == 0 else None, shutdown=False, collect=False)
        cluster.settle()
        parts = [weakref.ref(part) for each in cluster.workers for part in _parts(each)]
        cluster.shutdown()
        cluster.look_back()
        assert not cluster.trace.of(LEFT_BEHIND, STILL_ALIVE)
        assert [part() for part in parts] == [None] * 4


def _parts(worker: Worker) -> list[Any]:
    return [worker.agent, worker.rref_context]


def test_who_asks_for_a_value_of_a_group_that_was_left_is_told() -> None:
    """On the owner itself, by a request that it reads after it has left: nobody brings the value."""
    with Cluster(2, latency="constant:0.001") as cluster:
        cluster.run(lambda rank: None, shutdown=False)
        references: Any = cluster.workers[0].rref_context
        cluster.shutdown()
        owner = references.owner_tables.get_or_create_owner_rref(GlobalUniqueId(1, 7))
        assert owner.has_value() and not references.owner_tables.owners
        with pytest.raises(RuntimeError, match="shut down on the owner"):
            owner.get_value()
