"""References on a simulated cluster: what users see, and that nothing stays behind."""

from __future__ import annotations

import contextlib
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

from squall.properties.real.test_threads import on_threads
from squall.real import tracing
from squall.real.rpc import api as rpc
from squall.real.rpc.functions import async_execution
from squall.real.rpc.py_rref import RRef
from squall.real.rpc.rref_context import rref_context
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.cluster import Cluster

kept: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    kept.clear()


def ident(value: Any) -> Any:
    return value


def fail() -> Any:
    raise KeyError("no such thing")


def slow(value: Any, seconds: float) -> Any:
    current_task().runtime.sleep(seconds)
    return value


def fetch(rref: RRef[Any]) -> Any:
    return rref.to_here()


def local(rref: RRef[Any]) -> Any:
    return rref.local_value()


def keep(rref: RRef[Any]) -> None:
    kept["rref"] = rref


def forget() -> None:
    kept.clear()


def make(value: Any) -> RRef[Any]:
    return RRef(value)


def share(rref: RRef[Any], to: str) -> Any:
    """Passed on before anything else happens, by a user that is not the creator."""
    return rpc.rpc_sync(to, fetch, args=(rref,))


class Counter:
    def __init__(self, start: int) -> None:
        self.count = start

    def add(self, by: int = 1) -> int:
        self.count += by
        return self.count

    @async_execution
    def add_later(self, by: int) -> Any:
        return rpc.rpc_async("worker2", ident, args=(by,)).then(lambda f: self.add(f.wait()))


def play(
    story: Callable[[], Any], *, workers: int = 3, shutdown: bool = True, **options: Any
) -> tuple[Any, Cluster]:
    """Run ``story`` on worker0 of a cluster; then every table of every worker is empty."""
    options.setdefault("latency", "0.001")
    with Cluster(workers, **options) as cluster:
        contexts: list[Any] = []

        def main(rank: int) -> Any:
            contexts.append(rref_context(current_worker()))
            return story() if rank == 0 else None

        result = cluster.run(main, shutdown=shutdown)[0]
        for context in contexts:
            assert not context.owner_tables.owners, context.worker
            assert not context.owner_tables.pending_owners, context.worker
            assert not context.owner_tables.forks, context.worker
            assert not context.user_tables.pending_users, context.worker
            assert not context.user_tables.pending_children, context.worker
            assert context.num_pending_futures == 0, context.worker
        return result, cluster


# -- what users see ---------------------------------------------------------------------------


def test_a_value_made_elsewhere_is_fetched() -> None:
    def story() -> None:
        rref = rpc.remote("worker1", torch.add, args=(torch.ones(2), 1))
        assert not rref.is_owner()
        assert rref.owner().id == 1 and rref.owner_name() == "worker1"
        assert torch.equal(rref.to_here(), torch.full((2,), 2.0))
        ids = "RRefId = GloballyUniqueId(created_on=0, local_id=0), "
        ids += "ForkId = GloballyUniqueId(created_on=0, local_id=1)"
        assert str(rref) == f"UserRRef({ids})"
        with pytest.raises(RuntimeError, match=r"can't call localValue\(\) on user WorkerInfo"):
            rref.local_value()

    play(story)


def test_a_value_of_ones_own() -> None:
    def story() -> None:
        rref = RRef(torch.ones(2))
        assert rref.is_owner() and rref.confirmed_by_owner()
        assert rref.to_here() is rref.local_value()
        assert str(rref) == "OwnerRRef(GloballyUniqueId(created_on=0, local_id=0))"
        assert rref_context(current_worker()).get_debug_info() == {
            "num_owner_rrefs": "0",
            "num_forks": "0",
            "num_pending_users": "0",
            "num_pending_futures": "0",
        }

    play(story)


def test_a_call_of_oneself() -> None:
    def story() -> None:
        rref = rpc.remote("worker0", ident, args=(5,))
        assert rref.is_owner() and rref.to_here() == 5
        assert rref._get_future().wait() is None
        with pytest.raises(KeyError):
            rpc.remote("worker0", fail).to_here()
        broken = rpc.remote("worker0", torch.mm, args=(torch.ones(2, 3), torch.ones(2, 3)))
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            broken.local_value()

    play(story)


def test_references_travel_everywhere() -> None:
    def story() -> None:
        theirs = rpc.remote("worker1", ident, args=(7,))
        assert rpc.rpc_sync("worker2", fetch, args=(theirs,)) == 7  # user to user
        assert rpc.rpc_sync("worker1", local, args=(theirs,)) == 7  # user to owner
        mine = RRef(8)
        assert rpc.rpc_sync("worker1", fetch, args=(mine,)) == 8  # owner to user
        assert rpc.rpc_sync("worker0", local, args=(mine,)) == 8  # owner to itself
        assert rpc.rpc_sync("worker1", share, args=(mine, "worker2")) == 8
        assert rpc.rpc_sync("worker2", share, args=(theirs, "worker2")) == 7  # to itself
        assert rpc.rpc_sync("worker2", share, args=(theirs, "worker1")) == 7
        assert rpc.rpc_sync("worker1", ident, args=({"deep": [theirs, mine]},))["deep"][
            1
        ].is_owner()

    play(story)


def test_references_come_back() -> None:
    def story() -> None:
        made = rpc.rpc_sync("worker1", make, args=(3,))
        assert made.owner_name() == "worker1" and made.to_here() == 3
        with pytest.raises(RuntimeError, match="was not created by rpc"):
            made._get_future()
        nested = rpc.remote("worker1", make, args=(4,))
        assert nested.to_here().to_here() == 4
        round_trip = rpc.rpc_sync("worker2", ident, args=(made,))
        assert round_trip.to_here() == 3 and round_trip is not made

    play(story)


def test_what_the_function_raised_is_raised_at_each_use() -> None:
    def story() -> None:
        rref = rpc.remote("worker1", fail)
        for _ in range(2):
            with pytest.raises(KeyError, match="no such thing"):
                rref.to_here()
        with pytest.raises(RuntimeError, match=r"^KeyError: .*no such thing"):
            rpc.rpc_sync("worker2", fetch, args=(rref,))
        broken = rpc.remote("worker1", torch.mm, args=(torch.ones(2, 3), torch.ones(2, 3)))
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            broken.to_here()
        assert broken.confirmed_by_owner()

    play(story)


def test_methods_of_the_value() -> None:
    def story() -> None:
        rref = rpc.remote("worker1", Counter, args=(10,))
        assert rref.rpc_sync().add() == 11
        assert rref.rpc_async().add(by=2).wait() == 13
        assert rref.remote().add(1).to_here() == 14
        assert rref.rpc_sync().add_later(6) == 20
        assert rref._get_type() is Counter
        assert rref._get_type(blocking=False).wait() is Counter
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            rref.rpc_sync().nothing()
        with pytest.raises(AttributeError):
            rref.rpc_async().nothing().wait()

    play(story)


def test_pickling_outside_a_call_is_refused() -> None:
    def story() -> None:
        rref = RRef(1)
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(RuntimeError, match="rref can only be pickled when using RPC"):
                attempt(rref)
        with pytest.raises(RuntimeError, match="type_hint is for values that are a ScriptModule"):
            RRef(1, type_hint=int)
        assert RRef[int] is not None

    play(story)


# -- who is told what, and when ---------------------------------------------------------------


def test_a_dropped_reference_frees_the_value_at_once() -> None:
    def story() -> None:
        context = rref_context(current_worker())
        mine = RRef(torch.ones(2))
        rpc.rpc_sync("worker1", keep, args=(mine,))
        assert len(context.owner_tables.owners) == 1
        rpc.rpc_sync("worker1", forget)
        current_task().runtime.sleep(0.01)
        assert not context.owner_tables.owners and not context.owner_tables.forks

        def failing_use() -> None:
            theirs = rpc.remote("worker1", fail)
            with contextlib.suppress(KeyError):
                theirs.to_here()
            unfit = rpc.remote("worker1", torch.mm, args=(torch.ones(2, 3), torch.ones(2, 3)))
            with contextlib.suppress(RuntimeError):
                unfit.to_here()

            failed = rpc.rpc_async("worker2", fetch, args=(theirs,))
            for _ in range(2):
                with contextlib.suppress(RuntimeError):
                    failed.wait()

        failing_use()
        current_task().runtime.sleep(0.01)
        assert not context.user_tables.confirmed_users  # no cycle through a traceback kept them
        assert rpc.rpc_sync("worker1", count_owners) == 0

    play(story)


def count_owners() -> int:
    return len(rref_context(current_worker()).owner_tables.owners)


class Watched:
    """A value that tells when it goes, with a reference inside."""

    def __init__(self, inner: RRef[Any]) -> None:
        self.inner = inner

    def __del__(self) -> None:
        kept["gone"] = True


def test_a_value_goes_with_its_last_reference() -> None:
    def story() -> None:
        context = rref_context(current_worker())
        rref = rpc.remote("worker1", Watched, args=(RRef(1),))
        rpc.rpc_sync("worker2", ident, args=(rref,))
        current_task().runtime.sleep(0.01)
        assert len(context.owner_tables.owners) == 1 and "gone" not in kept
        del rref
        current_task().runtime.sleep(0.01)
        assert kept["gone"] and not context.owner_tables.owners

    play(story)


def test_a_function_runs_after_its_references_are_confirmed() -> None:
    def story() -> None:
        rref = rpc.remote("worker1", ident, args=(7,))
        assert rpc.rpc_sync("worker2", fetch, args=(rref,)) == 7

    _, cluster = play(story)
    confirmed = [e for e in cluster.trace.of(tracing.USER_CONFIRMED) if e.worker == 2]
    started = [e for e in cluster.trace.of(tracing.UDF_STARTED) if e.worker == 2]
    fetched = [e for e in started if e.fields["name"] == "fetch"]
    assert confirmed[0].number < fetched[0].number


def test_a_fetch_that_comes_before_the_creation_waits_for_it() -> None:
    def story() -> None:
        rref = rpc.remote("worker1", slow, args=(7, 0.5))
        assert rpc.rpc_sync("worker2", fetch, args=(rref,)) == 7

    _, cluster = play(story)
    assert len(cluster.trace.of(tracing.OWNER_PENDING)) == 1


def test_a_message_that_cannot_be_pickled_leaves_no_fork() -> None:
    def story() -> None:
        mine, theirs = RRef(1), rpc.remote("worker1", ident, args=(2,))
        for attempt in (rpc.rpc_sync, rpc.rpc_async, rpc.remote):
            with pytest.raises(Exception, match=r"local object|pickle"):
                attempt("worker1", ident, args=((mine, theirs, lambda: None),))
        context = rref_context(current_worker())
        assert not context.owner_tables.forks and not context.user_tables.pending_children

    play(story)


def test_a_reply_that_cannot_be_pickled_leaves_no_fork() -> None:
    def story() -> None:
        with pytest.raises(RuntimeError, match=r"local object|pickle"):
            rpc.rpc_sync("worker1", unpicklable_with_reference)

    play(story)


def unpicklable_with_reference() -> Any:
    return RRef(1), lambda: None


# -- timeouts ---------------------------------------------------------------------------------


def test_a_creation_that_times_out() -> None:
    def story() -> None:
        rref = rpc.remote("worker1", slow, args=(1, 1.0), timeout=0.2)
        current_task().runtime.sleep(0.5)
        assert rref.confirmed_by_owner()
        uses: tuple[Callable[[], Any], ...] = (
            rref.to_here,
            rref._get_type,
            lambda: rref.rpc_sync().anything(),
            lambda: rpc.rpc_sync("worker2", ident, args=(rref,)),
        )
        for use in uses:
            with pytest.raises(RuntimeError, match=r"RRef creation via rpc.remote\(\) timed out"):
                use()
        with pytest.raises(RuntimeError, match=r"RPCErr:1:RPC ran for more than set timeout \(200"):
            rref._get_future().wait()

    play(story)


def test_a_creation_on_oneself_that_times_out() -> None:
    def story() -> None:
        rref = rpc.remote("worker0", slow, args=(1, 1.0), timeout=0.2)
        rpc.rpc_sync("worker1", keep, args=(rref,))
        current_task().runtime.sleep(0.5)
        for use in (rref.to_here, rref.local_value):
            with pytest.raises(RuntimeError, match=r"RRef creation via rpc.remote\(\) timed out"):
                use()
        with pytest.raises(RuntimeError, match=r"RRef creation via rpc.remote\(\) timed out"):
            rpc.rpc_sync("worker1", fetch_kept)
        rpc.rpc_sync("worker1", forget)
        current_task().runtime.sleep(1.0)  # the value that comes late is dropped
        with pytest.raises(RuntimeError, match=r"RRef creation via rpc.remote\(\) timed out"):
            rref.local_value()

    play(story)


def fetch_kept() -> Any:
    return kept["rref"].to_here()


def test_a_fetch_that_times_out_can_be_repeated() -> None:
    def story() -> None:
        rref = rpc.remote("worker1", slow, args=(7, 1.0))
        with pytest.raises(RuntimeError, match=r"RPCErr:1:.*\(100 ms\)"):
            rref.to_here(timeout=0.1)
        with pytest.raises(RuntimeError, match=r"RPCErr:1:.*\(100 ms\)"):
            rref._get_type(timeout=0.1)
        assert rref.to_here() == 7
        assert rref._get_type() is int

    play(story)


# -- shutdown ---------------------------------------------------------------------------------


def test_references_still_held_are_deleted_at_shutdown() -> None:
    def story() -> None:
        kept["theirs"] = rpc.remote("worker1", ident, args=(7,))
        rpc.rpc_sync("worker1", keep, args=(RRef(8),))

    play(story)


@pytest.mark.parametrize("seed", range(40))
def test_who_leaves_waits_no_longer_than_its_owners_have_to_hear(seed: int) -> None:
    """Where messages take no time, the last answer may come while others are still being told."""

    def main(rank: int) -> None:
        for _ in range(2):
            rref = rpc.remote(f"worker{1 - rank}", ident, args=(7,))
            rref.to_here()
            del rref

    with Cluster(2, latency="0", order="random", seed=seed) as cluster:
        cluster.run(main)


def test_a_leak_is_told_of() -> None:
    def main(rank: int) -> Any:
        context = rref_context(current_worker())
        if rank == 0:
            kept["mine"] = RRef(8)
            rpc.rpc_sync("worker1", keep, args=(kept["mine"],))
            with pytest.raises(RuntimeError) as caught:
                context.destroy_instance(ignore_rref_leak=False)
            return str(caught.value)
        current_task().runtime.sleep(1)
        context.abandon()
        return None

    with Cluster(2) as cluster:
        text = cluster.run(main, shutdown=False)[0]
    assert text == (
        "Leaking RRef GloballyUniqueId(created_on=0, local_id=0) with fork Id "
        "GloballyUniqueId(created_on=0, local_id=1)\n"
    )


def test_after_shutdown_there_are_no_references() -> None:
    def main(rank: int) -> None:
        rref = rpc.remote(f"worker{1 - rank}", ident, args=(7,))
        rref.to_here()
        rpc.shutdown()
        with pytest.raises(RuntimeError, match=r"has been deleted\. Cannot call to_here"):
            rref.to_here()
        with pytest.raises(RuntimeError, match="Current RPC agent is not set"):
            RRef(1)
        assert str(rref).startswith("UserRRef(")

    with Cluster(2) as cluster:
        cluster.run(main, shutdown=False)


# -- on real threads --------------------------------------------------------------------------


def test_references_on_threads() -> None:
    def main(rank: int) -> object:
        near, far = f"worker{(rank + 1) % 3}", f"worker{(rank + 2) % 3}"
        values = []
        for n in range(20):
            rref = rpc.remote(near, ident, args=(n,))
            values.append(rpc.rpc_sync(far, fetch, args=(rref,)))
            values.append(rpc.rpc_sync(near, share, args=(rref, far)))
            values.append(rpc.rpc_sync(far, fetch, args=(RRef(n),)))
        contexts[rank] = rref_context(current_worker())
        return values

    contexts: dict[int, Any] = {}
    assert on_threads(3, main) == [[n for n in range(20) for _ in range(3)]] * 3
    for context in contexts.values():
        assert (
            not context.owner_tables.forks
            and not context.user_tables.pending_users
            and not context.user_tables.pending_children
        )
