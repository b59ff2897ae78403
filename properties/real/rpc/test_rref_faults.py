"""References while messages are overtaken, copied and lost: nothing leaks, nobody waits in vain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.properties.real.rpc.test_rref import fetch, ident, keep, kept, play, slow
from squall.real.rpc import api as rpc
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.rpc.py_rref import RRef
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.cluster import Cluster
from squall.sim.world.network import Network

CONTROL = (
    MessageType.RREF_USER_DELETE,
    MessageType.RREF_FORK_REQUEST,
    MessageType.RREF_CHILD_ACCEPT,
)

#: what becomes of a message: delays in seconds at which copies of it arrive
Verdict = tuple[float, ...]
ON_TIME: Verdict = (0.0,)
LOST: Verdict = ()


@contextmanager
def rule(verdict: Callable[[Message], Verdict]) -> Iterator[None]:
    """Decide about each message that is sent from here on."""
    network = current_worker().world
    assert isinstance(network, Network)
    runtime, send = network.runtime, network.send

    def judged(store: Any, message: Message) -> None:
        for delay_s in verdict(message):
            if delay_s == 0.0:
                send(store, message)
            else:
                copy = message.copy()
                runtime.call_later(delay_s, lambda copy=copy: late(store, copy))  # type: ignore[misc]

    def late(store: Any, message: Message) -> None:
        try:
            send(store, message)
        except ConnectionError:  # its receiver has left
            return

    network.send = judged  # type: ignore[method-assign]
    try:
        yield
    finally:
        network.send = send  # type: ignore[method-assign]


def sleep(seconds: float) -> None:
    current_task().runtime.sleep(seconds)


def of(*types: MessageType, verdict: Verdict) -> Callable[[Message], Verdict]:
    return lambda message: verdict if message.type in types else ON_TIME


def call(to: str, function: Callable[..., Any], *args: Any) -> Any:
    return rpc.rpc_sync(to, function, args=args, timeout=0)


def share(rref: RRef[Any], to: str) -> Any:
    """Passed on before anything else happens, by a user that is not the creator."""
    return call(to, fetch, rref)


def user_story() -> None:
    """References through every path, dropped again."""
    theirs = rpc.remote("worker1", ident, args=(7,))
    assert call("worker2", share, theirs, "worker1") == 7
    assert call("worker2", share, theirs, "worker0") == 7
    del theirs
    mine = RRef(8)
    assert call("worker2", share, mine, "worker1") == 8
    assert call("worker2", ident, mine).local_value() == 8


@pytest.mark.parametrize("type", CONTROL)
def test_copies_of_control_messages_change_nothing(type: MessageType) -> None:
    def story() -> None:
        with rule(of(type, verdict=(0.0, 0.0, 0.5))):
            user_story()
            sleep(2.0)

    play(story)


@pytest.mark.parametrize("type", [*CONTROL, MessageType.RREF_ACK])
def test_lost_control_messages_are_sent_again(type: MessageType) -> None:
    def story() -> None:
        seen: dict[tuple[Any, ...], int] = {}

        def first_is_lost(message: Message) -> Verdict:
            if message.type is not type:
                return ON_TIME
            key = (message.src, message.dst, message.about)
            seen[key] = seen.get(key, 0) + 1
            return LOST if seen[key] == 1 else ON_TIME

        with rule(first_is_lost):
            user_story()
            sleep(100.0)

    play(story, rpc_timeout_s=5.0)


def test_a_fork_request_copied_after_its_delete() -> None:
    def story() -> None:
        with rule(of(MessageType.RREF_FORK_REQUEST, verdict=(0.0, 5.0))):
            theirs = rpc.remote("worker1", ident, args=(7,))
            assert rpc.rpc_sync("worker2", fetch, args=(theirs,)) == 7
            del theirs
            sleep(10.0)

    play(story)


def test_a_creation_that_comes_after_its_delete() -> None:
    def story() -> None:
        with rule(of(MessageType.PYTHON_REMOTE_CALL, verdict=(5.0,))):
            rref = rpc.remote("worker1", ident, args=(7,), timeout=0.5)
            sleep(1.0)
            del rref
            sleep(10.0)

    play(story)


def test_a_creation_that_runs_while_its_creator_goes() -> None:
    def story() -> None:
        rref = rpc.remote("worker1", slow, args=(7, 2.0), timeout=0.5)
        rpc.rpc_sync("worker2", keep, args=(rref,))
        sleep(1.0)
        del rref
        # The other user's reference is as good as ever: the value comes.
        assert rpc.rpc_sync("worker2", fetch_and_forget) == 7

    play(story)


def fetch_and_forget() -> Any:
    return kept.pop("rref").to_here()


def test_a_creation_that_is_lost() -> None:
    def story() -> None:
        with rule(of(MessageType.PYTHON_REMOTE_CALL, verdict=LOST)):
            rref = rpc.remote("worker1", ident, args=(7,), timeout=5.0)
            early = rpc.rpc_async("worker2", fetch, args=(rref,), timeout=0)
            asked = rpc.rpc_async("worker1", ident, args=(rref,))  # the owner hears of it
            asked.wait()
            del asked
            sleep(6.0)
            del rref
            # It waited for a value that cannot come any more, and is told so.
            with pytest.raises(RuntimeError, match="timed out"):
                early.wait()

    play(story)


def pass_on(to: str) -> Any:
    return rpc.rpc_sync(to, fetch, args=(kept.pop("rref"),))


def owners() -> str:
    return rpc._rref_context_get_debug_info()["num_owner_rrefs"]


def test_a_reference_to_what_was_never_created_is_passed_on_and_let_go() -> None:
    def story() -> None:
        with rule(of(MessageType.PYTHON_REMOTE_CALL, verdict=LOST)):
            rref = rpc.remote("worker1", ident, args=(7,), timeout=5.0)
            rpc.rpc_sync("worker1", keep, args=(rref,))
            sleep(6.0)
            del rref
            sleep(1.0)
            with pytest.raises(RuntimeError, match="timed out"):
                rpc.rpc_sync("worker1", pass_on, args=("worker2",))
            sleep(1.0)
            assert rpc.rpc_sync("worker1", owners) == "0"

    play(story)


def fetch_without_limit(rref: RRef[Any]) -> Any:
    return rref.to_here(timeout=0)


def test_a_creation_that_nobody_gives_up_is_over_with_the_group() -> None:
    def story() -> Any:
        types = MessageType.PYTHON_REMOTE_CALL, MessageType.RREF_USER_DELETE
        with rule(of(*types, verdict=LOST)):
            rref = rpc.remote("worker1", ident, args=(7,), timeout=1.0)
            waits = rpc.rpc_async("worker2", fetch_without_limit, args=(rref,), timeout=0)
            sleep(2.0)
            del rref
            sleep(60.0)
            assert not waits.done()
        return waits

    waits, _ = play(story, rpc_timeout_s=2.0)
    with pytest.raises(RuntimeError, match="RPC has been shut down on the owner"):
        waits.wait()


def test_a_creation_that_cannot_be_read() -> None:
    def story() -> None:
        rref = rpc.remote("worker1", ident, args=(CannotBeRead(),))
        child = rpc.rpc_async("worker2", fetch, args=(rref,))
        with pytest.raises(RuntimeError, match="Error on Node 1: OSError: unreadable"):
            child.wait()
        uses: tuple[Callable[[], Any], ...] = (
            rref.to_here,
            lambda: rpc.rpc_sync("worker2", ident, args=(rref,)),
        )
        for use in uses:
            with pytest.raises(RuntimeError, match="Error on Node 1: OSError: unreadable"):
                use()

    play(story)


class CannotBeRead:
    def __reduce__(self) -> Any:
        return unreadable, ()


def unreadable() -> None:
    raise OSError("unreadable")


@pytest.mark.parametrize("function", [fetch, keep])
def test_a_fork_request_that_is_never_heard(function: Callable[..., Any]) -> None:
    """The function does not run, whether or not it uses the reference."""

    def story() -> None:
        theirs = rpc.remote("worker1", ident, args=(7,))
        theirs.to_here()
        with rule(of(MessageType.RREF_FORK_REQUEST, verdict=LOST)):
            with pytest.raises(RuntimeError, match=r"after the specified number of max retries"):
                rpc.rpc_sync("worker2", function, args=(theirs,), timeout=0)

    play(story, rpc_timeout_s=2.0)


def leave(seconds: float) -> None:
    worker = current_worker()
    goes = partial(rpc.shutdown, graceful=False)
    worker.runtime.call_later(
        seconds, lambda: worker.runtime.spawn(goes, name="goes", worker=worker)
    )


def test_a_fork_request_of_a_worker_that_goes(caplog: pytest.LogCaptureFixture) -> None:
    def story() -> None:
        theirs = rpc.remote("worker1", ident, args=(7,))
        theirs.to_here()
        rpc.rpc_sync("worker2", leave, args=(1.0,))
        with rule(of(MessageType.RREF_FORK_REQUEST, verdict=LOST)):
            with pytest.raises(RuntimeError):
                rpc.rpc_sync("worker2", keep, args=(theirs,))
        sleep(1.0)

    with Cluster(3, latency="0.001") as cluster:
        cluster.run(lambda rank: story() if rank == 0 else None, shutdown=False)
    assert "could not accept child" in caplog.text


def test_a_late_fetch_of_what_is_deleted() -> None:
    def story() -> None:
        with rule(of(MessageType.PYTHON_RREF_FETCH_CALL, verdict=(5.0,))):
            rref = rpc.remote("worker1", ident, args=(7,))
            with pytest.raises(RuntimeError, match="RPCErr:1"):
                rref.to_here(timeout=0.5)
            del rref
            sleep(10.0)

    play(story)


@given(
    seed=st.integers(0, 2**32 - 1),
    copies=st.lists(st.sampled_from([(0.0,), (0.0, 0.03), (0.02,), (0.05, 0.0)]), max_size=40),
)
def test_any_order_and_any_copies(seed: int, copies: list[Verdict]) -> None:
    def story() -> None:
        verdicts = iter(copies)

        def some(message: Message) -> Verdict:
            return next(verdicts, ON_TIME) if message.type in CONTROL else ON_TIME

        with rule(some):
            user_story()
            sleep(1.0)

    play(story, seed=seed, order="random", latency="uniform:0.001:0.02")


def test_a_call_that_the_callee_does_not_know_leaves_no_fork() -> None:
    def story() -> None:
        mine, theirs = RRef(1), rpc.remote("worker1", ident, args=(2,))
        for to in ("worker0", "worker1", "worker2"):
            with pytest.raises(RuntimeError, match="OSError: unreadable"):
                rpc.rpc_sync(to, ident, args=([mine, theirs, CannotBeRead(), mine, theirs],))
        assert theirs.to_here() == 2

    play(story)


def test_a_reply_that_comes_too_late_leaves_no_fork() -> None:
    def story() -> None:
        with pytest.raises(RuntimeError, match="RPCErr:1"):
            rpc.rpc_sync(
                "worker1", slow_reference, args=(rpc.remote("worker2", ident, (1,)),), timeout=0.5
            )
        sleep(10.0)

    play(story)


def slow_reference(theirs: RRef[Any]) -> Any:
    sleep(5.0)
    return theirs, RRef(1)
