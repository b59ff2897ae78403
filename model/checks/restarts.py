"""What a process has that ends: nobody keeps it, or uses it, who has heard of the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from squall.model.checks.excuses import ENDED_PROCESS, OWN_TIME, excused
from squall.model.events.fault_effects import faults_of, own_time
from squall.model.events.rref_state import Id
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.real import tracing
from squall.real.tracing import EventType

#: the lowest bits of a context's id count; the worker that made it stands above them
_COUNTER_BITS = 48
#: requests by which a value is asked for, by the ends of their names
_USES = ("RREF_FETCH_CALL", "RREF_BACKWARD_REQ")
_RELEASE = "CLEANUP_AUTOGRAD_CONTEXT_REQ"
#: the task by which a worker sees to what the end of a peer's process means to it
_PEER_LOST = "peer lost"


@named("restarts", engines=PORT_ONLY, work="both")
def RESTARTS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Nothing that belongs to a process that has ended is kept or used by a worker that has heard
    of the end, from the instant on at which it hears. References to its values are neither fetched nor
    handed on; contexts that it made are released, and none is made again; what was sent to it is no
    part of a graph any more; and of a context that it had, and whose release it can pass on to
    nobody, every other worker is told. What belongs to the next process of the rank is not touched:
    the two use no id twice.
    """
    if not run.of(tracing.PEER_ENDED):
        return
    processes = _Processes(run)
    yield from processes.ids_given_twice()
    slow = own_time(run)
    for n in run.of(tracing.PEER_ENDED):
        worker, peer, process = run.records[n][4]
        end = processes.end_of(peer, process)
        if end is None or processes.shuts_down(worker):
            continue
        if worker in slow and excused(run, OWN_TIME):
            continue
        if processes.gone(worker, n) and excused(run, ENDED_PROCESS):
            continue
        yield from _News(processes, n, end).broken()
    yield from processes.wrongly_ended()


class _Processes:
    """The processes of a run, and what each of them has had."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.faults = faults = faults_of(run)
        self.quiet = next(iter(run.of(tracing.TABLES_COUNTED)), len(run.records))
        crashes: dict[int, list[int]] = defaultdict(list)
        self._others: set[int] = {run.records[n][1] for n in run.of(tracing.GROUP_LEFT)}
        for n in faults.injected:
            kind, _, worker = run.records[n][4][:3]
            if kind == "crash":
                crashes[worker].append(n)
            elif kind == "shutdown":
                self._others.add(worker)
        self._crashes = crashes

    def process(self, worker: int, n: int) -> int:
        """Which process of a worker's rank is there at event ``n``, counted from 0."""
        return sum(back < n for back in self.faults.back.get(worker, ()))

    def end_of(self, worker: int, process: int) -> int | None:
        """The event with which a process ended before its time; None if none did."""
        ends = (n for n in self._crashes.get(worker, ()) if self.process(worker, n) == process)
        return next(ends, None)

    def ended(self, worker: int, process: int, n: int) -> bool:
        end = self.end_of(worker, process)
        return end is not None and end < n

    def shuts_down(self, worker: int) -> bool:
        """Whether a worker leaves its group at some time: it need not hear of anything then."""
        return worker in self._others

    def gone(self, worker: int, n: int) -> bool:
        """Whether event ``n`` tells something to a process that has ended, or leaves all the same."""
        return n > self.quiet or self.faults.is_gone(worker, n)

    def until(self, worker: int, n: int) -> int:
        """The event with which the process of a worker that is there at event ``n`` ends."""
        return min((end for end in self._crashes.get(worker, ()) if end > n), default=self.quiet)

    def same(self, worker: int, one: int, other: int) -> bool:
        """Whether one process of a worker was there at both events."""
        return self.process(worker, one) == self.process(worker, other)

    # -- what there was -------------------------------------------------------------------

    def by_worker(self, *types: EventType) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for n in self.run.of(*types):
            found[self.run.records[n][1]].append(n)
        return found

    @cached_property
    def users(self) -> dict[int, list[int]]:
        return self.by_worker(tracing.USER_CREATED)

    @cached_property
    def owners(self) -> dict[Id, tuple[int, int]]:
        """By reference: the worker and the process of it that had the value first."""
        found: dict[Id, tuple[int, int]] = {}
        for n in self.run.of(tracing.OWNER_CREATED):
            _, worker, _, _, (rref,) = self.run.records[n]
            found.setdefault(rref, (worker, self.process(worker, n)))
        return found

    @cached_property
    def uses(self) -> dict[int, list[int]]:
        return self.by_worker(tracing.CALL_STARTED, tracing.CHILD_PENDING)

    @cached_property
    def contexts(self) -> dict[int, dict[int, int]]:
        """By context and worker: the first event that made it there."""
        found: dict[int, dict[int, int]] = defaultdict(dict)
        for n in self.run.of(tracing.CONTEXT_CREATED):
            _, worker, _, _, (context,) = self.run.records[n]
            found[context].setdefault(worker, n)
        return found

    @cached_property
    def made(self) -> dict[int, list[int]]:
        return self.by_worker(tracing.CONTEXT_CREATED)

    @cached_property
    def releases(self) -> dict[tuple[int, int], list[int]]:
        """By worker and context: when it was released there."""
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        for n in self.run.of(tracing.CONTEXT_RELEASED):
            _, worker, _, _, (context,) = self.run.records[n]
            found[worker, context].append(n)
        return found

    @cached_property
    def told(self) -> dict[tuple[int, int], dict[int, int]]:
        """By worker and context: whom it told first of the release when."""
        found: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        for n in self.run.of(tracing.CALL_STARTED):
            _, worker, _, _, (_, to, type, _, about) = self.run.records[n]
            if type == _RELEASE:
                found[worker, about[0]].setdefault(to, n)
        return found

    @cached_property
    def sends(self) -> dict[int, list[int]]:
        return self.by_worker(tracing.SEND_ATTACHED)

    @cached_property
    def detached(self) -> dict[tuple[int, int, int], int]:
        """By worker, context and message: when its send function went."""
        records = self.run.records
        return {(records[n][1], *records[n][4]): n for n in self.run.of(tracing.SEND_DETACHED)}

    @cached_property
    def known(self) -> dict[int, list[int]]:
        return self.by_worker(tracing.KNOWN_WORKER_ADDED)

    @cached_property
    def forgotten(self) -> set[tuple[int, int, int]]:
        """Workers of which it turned out that nothing went there: by worker and context."""
        records = self.run.records
        return {(records[n][1], *records[n][4]) for n in self.run.of(tracing.KNOWN_WORKER_REMOVED)}

    def maker(self, context: int) -> tuple[int, int] | None:
        """The worker and the process of it that made a context; None if no event tells."""
        worker = context >> _COUNTER_BITS
        n = self.contexts[context].get(worker)
        return None if n is None else (worker, self.process(worker, n))

    # -- what belongs to the next process ---------------------------------------------------

    def ids_given_twice(self) -> Iterator[Violation]:
        """Ids that two processes of one rank have given."""
        records = self.run.records
        given: dict[tuple[str, int, object], int] = {}
        for n in self.run.of(
            tracing.CALL_STARTED,
            tracing.USER_CREATED,
            tracing.SEND_ATTACHED,
            tracing.CONTEXT_CREATED,
        ):
            _, worker, _, type, values = records[n]
            if worker not in self.faults.back:
                continue
            if type is tracing.USER_CREATED and values[3] != worker:
                continue  # its parent has given the id
            if type is tracing.CONTEXT_CREATED and values[0] >> _COUNTER_BITS != worker:
                continue
            id = values[1] if type in (tracing.USER_CREATED, tracing.SEND_ATTACHED) else values[0]
            first = given.setdefault((type.name, worker, id), n)
            if not self.same(worker, first, n):
                what = "two processes of a worker gave one id"
                yield self.run.violation(
                    "restarts", what, f"ids other than {id}", f"{type.name} of {id}", first, n
                )

    def wrongly_ended(self) -> Iterator[Violation]:
        """What a worker ended for the end of a process that is there."""
        records = self.run.records
        tasks = {
            records[n][2]
            for n in self.run.of(tracing.TASK_STARTED)
            if records[n][4][0] == _PEER_LOST
        }
        for n in self.run.of(tracing.CONTEXT_RELEASED):
            _, worker, task, _, (context,) = records[n]
            maker = self.maker(context) if task in tasks else None
            if maker is None or maker[0] in self._others or self.ended(*maker, n):
                continue
            if not self.gone(worker, n):
                what = "a context was released whose maker's process is there"
                yield self.run.violation("restarts", what, f"context {context}", "it is gone", n)


class _News:
    """A worker hears, with event ``n``, of a process that ended with event ``end``."""

    def __init__(self, processes: _Processes, n: int, end: int) -> None:
        self.processes = processes
        self.run = run = processes.run
        self.n, self.end = n, end
        self.time_s = run.records[n][0]
        self.worker, self.peer, self.process = run.records[n][4]
        self.until = processes.until(self.worker, n)

    def broken(self) -> Iterator[Violation]:
        yield from self._references()
        yield from self._contexts()
        yield from self._graph()
        yield from self._releases()

    def _had(self, m: int) -> bool:
        """Whether what event ``m`` made was there when the news came, on the worker that heard them."""
        return m < self.n and self.processes.same(self.worker, m, self.n)

    def _is_later(self, m: int) -> bool:
        """Whether event ``m`` is of a later instant: whoever had begun has ended by then."""
        return self.n < m < self.until and self.run.records[m][0] > self.time_s

    def _kept(self, m: int | None) -> bool:
        """Whether what was to go with the news, and went with event ``m``, was there for longer."""
        if m is not None and not self._is_later(m):
            return False
        # Of what comes at the very end nobody knows what would have come of it.
        return m is not None or self._is_later(self.until - 1)

    def _violation(self, what: str, expected: str, seen: str, *events: int) -> Violation:
        found = self.run.violation("restarts", what, expected, seen, self.end, self.n, *events)
        return found._replace(worker=self.worker)

    def _of_the_end(self, owner: tuple[int, int] | None) -> bool:
        return owner is not None and owner[0] == self.peer and owner[1] <= self.process

    def _references(self) -> Iterator[Violation]:
        processes, records = self.processes, self.run.records
        #: references that were there, and their forks; those whose forks come later nobody can tell
        had: set[Id] = set()
        for m in processes.users.get(self.worker, ()):
            rref, fork, owner, _ = records[m][4]
            if m < self.until and processes.same(self.worker, m, self.n):
                if m > self.n:
                    had.discard(rref)
                elif owner == self.peer and self._of_the_end(processes.owners.get(rref)):
                    had |= {rref, fork}
        if not had:
            return
        for m in processes.uses.get(self.worker, ()):
            if not self._is_later(m):
                continue
            _, _, _, type, values = records[m]
            if type is tracing.CHILD_PENDING:
                used, how = values[1] in had, "handed on"
            else:
                _, to, name, _, about = values
                names = (name, *(each for each in about if isinstance(each, str)))
                asks = to == self.peer and any(each.endswith(_USES) for each in names)
                used, how = asks and about[-1] in had, "asked for"
            if used:
                what = "a reference to a value of a process that has ended was used"
                yield self._violation(what, "an error", f"it is {how}", m)
                return

    def _contexts(self) -> Iterator[Violation]:
        processes, records = self.processes, self.run.records
        for m in processes.made.get(self.worker, ()):
            context = records[m][4][0]
            if not self._of_the_end(processes.maker(context)):
                continue
            if self._is_later(m):
                what = "a context of a process that has ended was made"
                yield self._violation(what, f"none of {context}", "there is one", m)
            elif self._had(m):
                released = processes.releases.get((self.worker, context), ())
                if self._kept(next((r for r in released if r > m), None)):
                    what = "a context of a process that has ended was kept"
                    yield self._violation(what, f"context {context} released", "it is there")

    def _graph(self) -> Iterator[Violation]:
        processes, records = self.processes, self.run.records
        for m in processes.sends.get(self.worker, ()):
            context, message, to, _ = records[m][4]
            if m > self.end or to != self.peer or not self._had(m):
                continue
            released = processes.releases.get((self.worker, context), ())
            gone = [
                processes.detached.get((self.worker, context, message)),
                next((r for r in released if r > m), None),
            ]
            if self._kept(min((g for g in gone if g is not None), default=None)):
                what = "what was sent to a process that has ended is a part of the graph"
                yield self._violation(what, f"no send function of {message}", "it is there")

    def _releases(self) -> Iterator[Violation]:
        """Contexts whose release the process would have passed on."""
        processes, records = self.processes, self.run.records
        others = sorted(
            each
            for each in self.run.names
            if each not in (self.worker, self.peer) and each not in processes.faults.gone
        )
        for m in processes.known.get(self.worker, ()):
            context, known = records[m][4]
            if known != self.peer or m > self.end or not self._had(m):
                continue
            if (self.worker, context, known) in processes.forgotten or not self._stays(context):
                continue
            released = next(
                (r for r in processes.releases.get((self.worker, context), ()) if r > m), None
            )
            if released is None or released >= self.until:
                continue
            last = max(released, self.n)
            by_s = records[last][0]
            told = processes.told[self.worker, context]
            # What was on its way out as the news came is answered by the next process: it never had it.
            unsent = told.get(self.peer, self.n) > self.n
            for other in others:
                at = told.get(other)
                late = at is None or (not unsent and at > last and records[at][0] > by_s)
                if late and self._ends_later(by_s):
                    what = "the release of a context that an ended process had went no further"
                    expected = f"worker {other} told of context {context}"
                    yield self._violation(what, expected, "it is not", last)
                    return

    def _ends_later(self, time_s: float) -> bool:
        return self.until > 0 and self.run.records[self.until - 1][0] > time_s

    def _stays(self, context: int) -> bool:
        """Whether the process had a context when it ended, and no later one of its rank has had it."""
        processes = self.processes
        there = [
            m for m in processes.made.get(self.peer, ()) if self.run.records[m][4][0] == context
        ]
        if not there or any(processes.process(self.peer, m) != self.process for m in there):
            return False
        return not any(r < self.end for r in processes.releases.get((self.peer, context), ()))


RANK = 29
PROPERTIES: tuple[Property, ...] = (RESTARTS,)
