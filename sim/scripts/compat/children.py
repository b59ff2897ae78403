"""Children of a simulated process, which ``multiprocessing`` starts.

A spawned child imports the script afresh as ``__mp_main__``. A forked one cannot copy its parent's
memory; it does the same, silently, and is then given the parent's module globals that can be
pickled, so that ``args = parse_args()`` under ``if __name__ == "__main__"`` is there for it.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from squall.model.events.names import code
from squall.sim.scripts import exchange
from squall.sim.scripts.compat.errors import report
from squall.sim.scripts.compat.forked import Memory
from squall.sim.scripts.compat.modules import CHILD_MAIN
from squall.sim.scripts.compat.process import (
    FORKS_RUN_EXIT_HANDLERS,
    OWN_RANK,
    ProcessTable,
    SimProcess,
    current_process,
)
from squall.sim.scripts.compat.process_pickling import Parcel
from squall.sim.scripts.compat.signals import deliver
from squall.sim.scripts.leaks import LABEL
from squall.sim.scripts.ranks import inherited
from squall.sim.scripts.stores import Stores
from squall.sim.world.stack_reading import Reading, Thread, reads

#: the name of a process to which nobody gave one
_NAME = re.compile(r"\w*Process-[\d:]+")
#: what a process waits for that asks so
_WHAT = {
    "pipe read": "a pipe between processes",
    "semaphore acquire": "a lock or a semaphore of multiprocessing",
    "exchange receive": "a pipe between processes",
    "exchange accept": "a connection of another process",
    "wait any": "pipes between processes, or the end of one",
    "store get": "a key of a store",
    "store wait": "keys of a store",
    "store pop": "a queue of a store",
}


class StartsAgainError(BaseException):
    """What a forked child executes anew has come to where its parent starts a process."""


class _Question:
    def __init__(self) -> None:
        self.is_answered = False
        self.answer: Any = None
        #: set where one waits for the answer
        self.event: Any = None
        #: what is to be called as it is answered
        self.said: list[Callable[[], None]] = []


class Coordinator:
    """Answers what the processes of a run ask of one another."""

    def __init__(self, group: ProcessTable) -> None:
        self.runtime = group.runtime
        self.answers: dict[str, Callable[..., None]] = {}
        self.children = Children(self, group)
        self.stores = Stores(self)

    def ask(self, process: SimProcess, word: str, *rest: Any) -> Any:
        """The answer, once there is one."""
        if not process.alive:
            return None  # a destructor, after the process has ended
        self.runtime.checkpoint()
        question = _Question()
        self.answers[word](process, question, *rest)
        if not question.is_answered:
            question.event = self.runtime.event(_WHAT.get(word) or self._ends(rest[0]))
            question.event.wait()
        for what in question.said:
            what()
        return question.answer

    def ask_here(self, word: str, *rest: Any) -> Any:
        """For the process that runs."""
        return self.ask(current_process(), word, *rest)

    def _ends(self, pids: list[int]) -> str:
        names = [self.children.process(pid).name for pid in pids]
        return f"the end of process {' or '.join(names)}"

    def answer(self, worker: Any, question: Any, value: Any) -> None:
        question.is_answered, question.answer = True, value
        if question.event is not None:
            question.event.set()

    def say(self, worker: Any, question: Any, what: Callable[[], None]) -> None:
        question.said.append(what)


@reads(__name__, "Coordinator.ask")
def _waits(thread: Thread, frame: FrameType) -> Reading | None:
    """What a process waits for that has asked."""
    process, word, rest = (frame.f_locals[name] for name in ("process", "word", "rest"))
    is_child = word == "child wait" or (
        word == "wait any" and any(kind == "child" for kind, _ in rest[0])
    )
    if is_child:
        ends = tuple(child.worker for child in process.children if child.alive)
        return Reading("processes", "its processes", "", ends)
    name = thread.named()
    if word in ("store get", "store wait"):
        store, _, keys, *_ = rest
        keys = [keys] if isinstance(keys, str) else keys
        missing = frame.f_locals["self"].stores.missing(store, keys)
        what = f"key {code(missing[0])} of {name}" if missing else f"keys of {name}"
        return Reading("key", what, "nobody sets it")
    if word == "semaphore acquire" and name:
        return Reading("semaphore", name, "nobody releases it")
    if word.endswith(("read", "receive", "any")) and name:
        return Reading("queue", f"something from {name}", "nobody sends it")
    return None


def coordinator(group: ProcessTable) -> Coordinator:
    if group.coordinator is None:
        group.coordinator = Coordinator(group)
    found: Coordinator = group.coordinator
    return found


class Children(exchange.Children):
    def __init__(self, coordinator: Coordinator, group: ProcessTable) -> None:
        super().__init__(coordinator)
        self._group = group
        coordinator.answers["child"] = self._child

    def process(self, pid: int) -> Any:
        return self._group.by_pid(pid)

    def code(self, child: SimProcess) -> int:
        assert child.exit_code is not None
        return child.exit_code

    def signal(self, child: SimProcess, number: int) -> None:
        deliver(child, number)

    def _child(self, parent: SimProcess, question: Any, obj: Any, forked: bool) -> None:
        """Start what a ``multiprocessing.Process`` says, and answer with its number."""
        memory = Memory(parent) if forked else None
        parcel = Parcel(obj, parent.space, share=not forked, forked=forked)
        child = parent.group.create(
            name=obj.name,
            parent=parent,
            rank=None,
            argv=parent.argv,
            environ=inherited(parent.environ, parent.locals.get(OWN_RANK, {})),
            path=parent.space.path,
        )
        child.worker.locals[LABEL] = label_of(obj)
        child.runs_exit_handlers = not forked or FORKS_RUN_EXIT_HANDLERS
        if forked:
            self._exchange.forked(parent, child)
        child.start(lambda: _run(child, parcel, memory, (obj.name, obj.authkey)))
        self._coordinator.answer(parent, question, child.pid)


def label_of(obj: Any) -> str:
    """What a ``multiprocessing.Process`` runs, as ``main(0)``; "" if it has a name of its own."""
    if not _NAME.fullmatch(obj.name):
        return ""
    target, args = obj._target, obj._args
    if target is run_spawned:
        target, args = args[0], args[1:]
    name = getattr(target, "__name__", None) or type(obj).__name__
    first = args[0] if args and isinstance(args[0], int | str) else obj.name.rpartition("-")[2]
    return f"{name}({first})"


def _run(child: SimProcess, parcel: Parcel, memory: Memory | None, own: tuple[str, bytes]) -> None:
    process: Any = child.space.load("multiprocessing.process")
    current = process.current_process()
    current.name, current.authkey = own
    if child.script is not None:
        child.is_silent, current._inheriting = memory is not None, True
        try:
            child.run_script(CHILD_MAIN)
        except StartsAgainError:
            pass  # a real one would go on where it was forked, if not later
        finally:
            child.is_silent, current._inheriting = False, False
    if memory is not None:
        memory.restore(child)
        child.exit_handlers.clear()  # those were the parent's
    obj = parcel.open()
    process._begin(obj)
    obj.run()


def run_spawned(fn: Callable[..., object], index: int, args: tuple[Any, ...], file: str) -> None:
    """What a process does that ``torch.multiprocessing.spawn`` has started: its error is written for the
    parent."""
    try:
        fn(index, *args)
    except Exception as error:
        process = current_process()
        process.error = report(error)
        process.group.at_the_end.callback(Path(file).unlink, missing_ok=True)
        Path(file).write_bytes(pickle.dumps(process.error.traceback))
        raise SystemExit(1) from None
