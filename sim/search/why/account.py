"""What is known of a run that goes along a path, and what can be asked of that."""

from __future__ import annotations

from collections.abc import Sequence

from squall.model.events.waiting import Waiting
from squall.sim.search.why.deadlock import Stuck
from squall.sim.search.why.executed import Executed, Lines, Stored
from squall.sim.search.why.seen import (
    Call,
    Died,
    Fault,
    Left,
    Operation,
    Raised,
    Removed,
    Sent,
    Task,
    Thread,
)
from squall.sim.world.places import CodePlace
from squall.sim.world.steering import Path, Steering


class Account(Steering):
    """What has happened in a run, once somebody has written it down. ``lines`` has which lines are executed, for
    whoever asks for that."""

    def __init__(self, path: Path = ()) -> None:
        super().__init__(path)
        self.lines = Lines(self._where)
        self._count = -1
        #: by task: where it was last
        self._workers: dict[int, int] = {}
        self.calls: dict[tuple[int, int], Call] = {}
        self.sent: dict[int, Sent] = {}
        self.tasks: dict[int, Task] = {}
        #: of tasks at the steps that were asked for: the worker, where it went on, and where it waited next
        self.threads: dict[int, Thread] = {}
        #: by task: the line that has begun it
        self.begun: dict[int, CodePlace] = {}
        self.left: list[Left] = []
        self.removed: list[Removed] = []
        #: by message: the event of its arrival
        self.arrived: dict[int, int] = {}
        self.faults_seen: list[Fault] = []
        #: calls whose time was over, with the event
        self.timeouts: list[tuple[int, Call]] = []
        #: errors that ended a process
        self.errors: list[Raised] = []
        #: threads that errors have ended before any process
        self.died: list[Died] = []
        #: where nothing happened last before the first of them, until a time limit was over
        self.stuck: Stuck | None = None
        #: who waited at the end, once the run is over
        self.waits: Sequence[Waiting] = ()
        #: whether functions that calls run are seen
        self.sees_functions = True
        self.operations: list[Operation] = []
        #: workers that have made autograd contexts
        self.with_contexts: set[int] = set()
        #: by autograd context: the line that began it; and those that are over on the worker that began them
        self.contexts: dict[int, CodePlace] = {}
        self.over: set[int] = set()

    def _where(self) -> tuple[int, int]:
        runtime = self.runtime
        return len(self.entries) - 1, -1 if runtime is None else runtime.running.id

    def call_of(self, task: int) -> Call | None:
        """The call that a task serves, if it does."""
        known = self.tasks.get(task)
        sent = None if known is None else self.sent.get(known.cause)
        return None if sent is None or sent.is_reply else sent.call

    def state(self, call: Call) -> str:
        """Why nothing has come of a call; "" if something has, or that cannot be seen, as on other engines."""
        if self.calls.get(call.key) is not call:
            return "never called"
        # Who waits at the end is ended then, which is none of the program's.
        over = min((each.noted or 0 for each in self.waits), default=self._count + 1)
        if 0 <= call.ended < over or not self.sees_functions:
            return ""
        if call.began < 0:
            return "never ran"
        waits = (each.what for each in self.waits if self.call_of(each.task) is call)
        return next((f"waits for {what}" for what in waits), "never ended")

    def arrival(self, call: Call, *, is_reply: bool) -> int:
        """The event at which that call, or the answer to it, arrives; -1 if it does not."""
        return next(
            (
                self.arrived[number]
                for number, sent in self.sent.items()
                if sent.call is not None
                and sent.call.key == call.key
                and sent.is_reply == is_reply
                and number in self.arrived
            ),
            -1,
        )

    def faults_at(self, step: int) -> list[Fault]:
        """The faults that happened in that step."""
        first, last = self.span(step)
        return [each for each in self.faults_seen if first <= each.event < last]

    def span(self, step: int) -> tuple[int, int]:
        """The first event of a step, and the first one after it."""
        last = self.events_at[step + 1] if step + 1 < len(self.events_at) else self._count + 1
        return self.events_at[step], last

    def telling_steps(self) -> list[int]:
        """The steps that a user could name: his functions are called, what they give comes back, his threads
        go on, a timer fires."""
        return [step for step, entry in enumerate(self.entries) if self._is_telling(*entry)]

    def _is_telling(self, kind: str, number: int) -> bool:
        if kind == "task":
            task = self.tasks.get(number)
            return task is None or task.cause not in self.sent
        if kind != "message":
            return True
        sent = self.sent.get(number)
        return sent is not None and (sent.call is None or sent.call.may_be_users)

    def worker_of(self, step: int) -> int:
        """Where a step takes place, -1 if that is not known."""
        kind, number = self.entries[step]
        if kind == "message":
            sent = self.sent.get(number)
            return -1 if sent is None else sent.dst
        if kind == "timer":
            return number
        return self.worker_of_task(number)

    def worker_of_act(self, act: Executed | Stored) -> int:
        """Where that was done, -1 if it is not known."""
        return act.worker if isinstance(act, Stored) else self.worker_of_task(act.task)

    def worker_of_task(self, task: int) -> int:
        """Where a task was last, -1 if that is not known."""
        return self._workers.get(task, -1)

    def acts(self, step: int) -> list[Executed | Stored]:
        """The lines that are executed because of a step, and the keys that are used, up to the next wait: of the function
        that it calls, of who waited for its answer, or of the thread that goes on."""
        tasks, where = self._tasks_of(step), self.worker_of(step)
        done = self.lines.done
        later = (each for each in done if each.step >= step)
        first = next(
            (
                each
                for each in later
                if (each.task in tasks if tasks else self.worker_of_act(each) == where)
            ),
            None,
        )
        return [] if first is None else [each for each in done if each[:2] == first[:2]]

    def before(self, acts: list[Executed | Stored]) -> list[Executed | Stored]:
        """What the same task had done before, up to these."""
        if not acts:
            return []
        first = acts[0]
        return [e for e in self.lines.done if e.task == first.task and e.step < first.step]

    def _tasks_of(self, step: int) -> set[int]:
        """The tasks in which something happens because of a step; none: any of that worker."""
        kind, number = self.entries[step]
        task = self.tasks.get(number) if kind == "task" else None
        if task is not None and task.cause in self.sent and task.parent < 0:
            kind, number = "message", task.cause
        if kind != "message":
            return {number}
        found = {id for id, task in self.tasks.items() if task.cause == number and task.parent < 0}
        sent = self.sent.get(number)
        if sent is not None and sent.is_reply and sent.call is not None:
            found.add(sent.call.task)
        return found

    def on(self, worker: int) -> list[Call]:
        """The calls that have run on a worker, in that order."""
        found = [call for call in self.calls.values() if call.dst == worker and call.began >= 0]
        return sorted(found, key=lambda call: call.began)
