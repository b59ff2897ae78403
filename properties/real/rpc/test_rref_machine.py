"""RRefs step by step: Hypothesis makes, passes on, fetches and drops references, and delivers the
next message of whichever link it likes. After each step the tables of all workers are what the
state machine of the protocol (model/events/rref.py) says.

No time passes: every message is held until somebody delivers it, and all else is done at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import Phase, currently_in_test_context, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from squall.model.events.rref import TYPES, Protocol
from squall.model.events.rref_state import Breach, UserStage
from squall.real.rpc import api as rpc
from squall.real.rpc.message import Message
from squall.real.rpc.py_rref import RRef
from squall.sim.cluster import Cluster
from squall.sim.search.mutants.registry import MUTANTS
from squall.sim.world.garbage import collect
from squall.sim.world.held_messages import Held

WORKERS = 3
_RANKS = st.integers(0, WORKERS - 1)
#: which of several, counted round
_WHICH = st.integers(0, 15)

#: the references that users hold, by a number of their own: what ``take`` puts there
_HANDS: dict[int, RRef[Any]] = {}


def make(value: int) -> int:
    return value


def take(number: int, rref: RRef[Any]) -> None:
    _HANDS[number] = rref


class References(RuleBasedStateMachine):
    """Three workers, whose every message waits to be delivered by hand."""

    cluster: Cluster

    @initialize()
    def begin(self) -> None:
        _HANDS.clear()
        self.cluster = Cluster(WORKERS).__enter__()
        self.runtime = self.cluster.runtime
        self.cluster.run(lambda rank: None, shutdown=False)
        self.held: Held = self.cluster.network.hold()
        self.protocol = Protocol()
        self.read = len(self.cluster.trace.records)
        #: of each reference in hand: the worker that holds it, and the value it refers to
        self.holders: dict[int, int] = {}
        self.values: dict[int, int] = {}
        self.numbers = 0
        self.fetching = 0
        self.failures: list[str] = []

    # -- what may happen ------------------------------------------------------------------

    @rule(owner=_RANKS, creator=_RANKS)
    def create(self, owner: int, creator: int) -> None:
        """By ``rpc.remote``, to oneself too."""
        number = self._number(creator, self.numbers)
        value = self.values[number]

        def create() -> None:
            _HANDS[number] = rpc.remote(owner, make, args=(value,), timeout=0)

        self._act(creator, create)

    @rule(owner=_RANKS)
    def wrap(self, owner: int) -> None:
        """``RRef(value)`` of a value that is there."""
        number = self._number(owner, self.numbers)
        value = self.values[number]

        def wrap() -> None:
            _HANDS[number] = rpc.RRef(value)

        self._act(owner, wrap)

    @precondition(lambda self: _HANDS)
    @rule(which=_WHICH, to=_RANKS)
    def fork(self, which: int, to: int) -> None:
        """Pass a reference on; the other worker takes it in hand when it has it."""
        given = self._in_hand(which)
        number = self._number(to, self.values[given])
        rref = _HANDS[given]
        self._act(
            self.holders[given],
            lambda: rpc.rpc_async(to, take, args=(number, rref), timeout=0),
        )

    @precondition(lambda self: _HANDS)
    @rule(which=_WHICH)
    def fetch(self, which: int) -> None:
        number = self._in_hand(which)
        rref, expected = _HANDS[number], self.values[number]
        self.fetching += 1

        def fetch() -> None:
            try:
                value = rref.to_here(timeout=0)
            except Exception as error:
                self.failures.append(f"a fetch failed: {error}")
            else:
                if value != expected:
                    self.failures.append(f"fetched {value}, not {expected}")
            self.fetching -= 1

        self._act(self.holders[number], fetch)

    @precondition(lambda self: _HANDS)
    @rule(which=_WHICH)
    def drop(self, which: int) -> None:
        del _HANDS[self._in_hand(which)]
        self._settle()

    @precondition(lambda self: len(self.held))
    @rule(link=_WHICH)
    def deliver(self, link: int) -> None:
        """The next message of a link."""
        self._deliver(self._links()[link % len(self._links())][0])

    @precondition(lambda self: len(self.held))
    @rule(link=_WHICH, which=_WHICH)
    def overtake(self, link: int, which: int) -> None:
        """Some message of a link, before others that were sent earlier."""
        messages = self._links()[link % len(self._links())]
        self._deliver(messages[which % len(messages)])

    @rule()
    def collect_garbage(self) -> None:
        collect()
        self._settle()

    # -- how it is done -------------------------------------------------------------------

    def _number(self, holder: int, value: int) -> int:
        number, self.numbers = self.numbers, self.numbers + 1
        self.holders[number], self.values[number] = holder, value
        return number

    def _in_hand(self, which: int) -> int:
        numbers = sorted(_HANDS)
        return numbers[which % len(numbers)]

    def _act(self, rank: int, function: Callable[[], object]) -> None:
        self.runtime.spawn(function, name="act", worker=self.cluster.workers[rank])
        del function
        self._settle()

    def _links(self) -> list[list[Message]]:
        links: dict[tuple[int, int], list[Message]] = {}
        for message in self.held.messages:
            links.setdefault((message.src, message.dst), []).append(message)
        return [links[link] for link in sorted(links)]

    def _deliver(self, message: Message) -> None:
        if currently_in_test_context():
            note(f"{message.src} -> {message.dst}: {message.type.name} {message.about}")
        self.held.deliver(message)
        del message
        self._settle()

    def _settle(self) -> None:
        """Let everything happen that takes no time, and compare."""
        self.runtime.run(max_time_s=self.runtime.now())
        assert not self.failures, self.failures
        assert self._breaches() == []
        self._compare()

    def _breaches(self) -> list[Breach]:
        records = self.cluster.trace.records
        found: list[Breach] = []
        for _, worker, task, type, values in records[self.read :]:
            if type in TYPES:
                found += self.protocol.take(worker, task, type, values)
        self.read = len(records)
        return found

    def _compare(self) -> None:
        """The tables, and what the protocol makes of all that was said so far."""
        values, forks = self.protocol.values.values(), self.protocol.forks.values()
        known: set[Any] = set()
        for rank, worker in enumerate(self.cluster.workers):
            context = worker.rref_context
            assert context is not None
            owned, used = context.owner_tables, context.user_tables

            def users(stage: UserStage, rank: int = rank) -> set[Any]:
                return {f.id for f in forks if f.worker == rank and f.stage is stage}

            assert set(owned.owners) == {v.id for v in values if v.present and v.worker == rank}
            assert set(owned.pending_owners) == {
                v.id for v in values if v.asked_early and v.worker == rank
            }
            assert set(used.pending_users) == users(UserStage.PENDING)
            confirmed = {id for id, user in used.confirmed_users.items() if user() is not None}
            assert confirmed == users(UserStage.CONFIRMED)
            assert set(used.pending_children) == {f.id for f in forks if f.pending_child_of == rank}
            known |= {fork for of_one in owned.forks.values() for fork in of_one}
        assert known == {f.id for f in forks if f.known}

    def teardown(self) -> None:
        """Deliver everything and drop everything: nothing is left."""
        if not hasattr(self, "held"):
            return
        try:
            self._deliver_all()
            assert self.fetching == 0
            _HANDS.clear()
            collect()
            self._settle()
            self._deliver_all()
            assert list(self.protocol.left()) == []
        finally:
            _HANDS.clear()
            self.cluster.__exit__(None, None, None)

    def _deliver_all(self) -> None:
        while len(self.held):
            self._deliver(self.held.messages[0])


TestReferences = References.TestCase


#: planted bugs of the protocol that some order of deliveries brings out
BUGS = (
    "accepted-before-known",
    "child-not-accepted",
    "creator-not-kept",
    "early-fetch-forgotten",
    "first-delete-frees",
    "function-before-confirmation",
    "parent-not-kept",
)


@contextmanager
def planted(name: str) -> Iterator[None]:
    with MUTANTS[name].apply():
        yield


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", BUGS)
def test_a_bug_of_the_protocol_is_found(name: str) -> None:
    search = settings(
        max_examples=1000, stateful_step_count=30, database=None, phases=[Phase.generate]
    )
    with planted(name), pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(References, settings=search)  # type: ignore[no-untyped-call]
