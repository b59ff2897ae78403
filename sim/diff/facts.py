"""What a run came to, fact by fact: what two engines are compared in.

A fact has a place, a tuple whose first element is its kind:

========================================  =========================================================
``("outcome", trainer, step)``            "a value", "it does not end", or an error's first line
``("first error", trainer, step)``        the same of the first attempt's error, or "none"
``("failed", trainer, step, n)``          the error of pass ``n`` of a step that went on, or "none"
``("root", trainer, step, op)``           the tensor that a pass starts from
``("passes", trainer, step)``             how many backward passes there were
``("gradient", trainer, step, n, leaf)``  what a leaf has after pass ``n``; leaf -1: a stray one
``("kept", trainer, step, op, output)``   what a reference that was kept gives at the end
``("leaf", number)``                      a leaf at the end
``("story", trainer, step, number)``      the line that a story told
``("beside", trainer, step, field, n)``   the same of a cargo, a chain or updates
``("gather", worker, round)``             what a worker had of an exchange
``("hang",)``                             "ends", or who waits for what
``("death", worker)``                     what a worker process died of
``("torn", worker)``                      a callback locked memory that was freed
``("left", worker, counter)``             what is left when all is over but the shutdown, or where
                                          the run hangs; where workers shut down early, contexts
                                          and passes in the end
``("requests", type, step)``              requests sent, by type, whether TorchScript or Python made
                                          them; step: the one whose context they name, or None
``("refused", type)``                     requests that were answered with an error
``("unanswered", type, worker)``          requests that this worker never answered
``("wrapped", step)``                     answers that recorded a send function in a context
``("replies", type)``                     answers to nothing, or a second time
========================================  =========================================================

Besides there are traces of what rules ask for, which are not compared (sim/diff/traces.py).

Answers are not counted by type: which type a request is answered with follows from the request, or
from whether it is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from squall.model.checks.compiled import LEFT, TORN, first_line
from squall.model.events.run import Run
from squall.model.events.teardown import torn_down_at
from squall.model.one_process.outcome import Outcome, StepOutcome
from squall.model.program.program import Program, beside
from squall.real.tracing import HANDLER_ENDED, MESSAGE_SENT, TABLES_COUNTED
from squall.sim.diff.traces import traces_of

Place = tuple[Any, ...]
Facts = dict[Place, Any]

A_VALUE, NO_END, NONE, ENDS = "a value", "it does not end", "none", "ends"
#: what a count, or a kind of text, is where nothing is said of it
ABSENT: dict[str, Any] = {
    "first error": NONE,
    "failed": NONE,
    "hang": ENDS,
    "death": "lives",
    "torn": "lives",
    "left": 0,
    "requests": 0,
    "refused": 0,
    "unanswered": 0,
    "wrapped": 0,
    "replies": 0,
}
#: calls that a worker has made and nobody has answered
CALLS = "agent.client_active_calls"
COUNTS = ("requests", "refused", "unanswered", "wrapped", "replies")
_OF_A_STEP = frozenset(
    {"outcome", "first error", "failed", "root", "passes", "gradient", "kept", "story", "beside"}
)
#: messages whose first id is that of a context
_OF_A_CONTEXT = frozenset(
    {
        "FORWARD_AUTOGRAD_REQ",
        "FORWARD_AUTOGRAD_RESP",
        "BACKWARD_AUTOGRAD_REQ",
        "CLEANUP_AUTOGRAD_CONTEXT_REQ",
        "RREF_BACKWARD_REQ",
    }
)
#: an exception as Python shows it, or the first line of one whose text goes on with C++'s stack
_SHOWN = re.compile(r"^\w+\((?P<quote>['\"])(?P<text>.*?)(?:(?P=quote)\))?$")
_SRC, _DST, _TYPE, _ID, _ABOUT = map(
    MESSAGE_SENT.fields.index, ("src", "dst", "type", "id", "about")
)
#: the port's names of what torch's debug info counts, in the order of :data:`LEFT`
_TABLES = ("owners", "forks", "pending_users", "contexts", "passes")


def facts_of(program: Program, run: Run) -> Facts:
    """The facts of a run of this program, on either engine."""
    got = run.outcomes.got
    assert got is not None
    facts: Facts = {}
    for trainer, number, _ in program.steps:
        key = (trainer, number)
        facts.update(_step_facts(key, got.steps.get(key, StepOutcome())))
    facts.update(_values(program, got))
    if run.waits or (run.crash is not None and not run.processes.deaths):
        facts["hang",] = "\n".join(run.waits or [f"it breaks off: {run.crash}"])
    for death in run.processes.deaths:
        facts["death", death.worker] = str(death).partition(":")[0]
    for worker in run.processes.torn:
        facts["torn", worker] = TORN
    for worker, table in enumerate(_tables(run)):
        for name in (*LEFT, CALLS):
            if table.get(name):
                facts["left", worker, name] = table[name]
    facts.update(_messages(run, got))
    facts.update(traces_of(run))
    return facts


def value_of(facts: Facts, place: Place) -> Any:
    """A fact, or what it is where nothing is said of it."""
    return facts.get(place, ABSENT.get(place[0]))


def step_of(place: Place) -> tuple[int, int] | None:
    """(trainer, step) that a fact is about, if it is about one."""
    if place[0] in _OF_A_STEP:
        return (place[1], place[2])
    step = place[-1] if place[0] in ("requests", "wrapped") else None
    return step if isinstance(step, tuple) else None


def ending(step: StepOutcome) -> str:
    if not step.finished:
        return NO_END
    return A_VALUE if step.error is None else _text_of(step.error)


def _text_of(error: str) -> str:
    """The first line of an error; of one that another worker told, what it told, too."""
    line = first_line(error)
    if re.search(r"On WorkerInfo\(.*\):$", line) is None:
        return line
    told = _SHOWN.match(first_line(error.strip().partition("\n")[2]))
    if told is None:
        return line
    return f"{line} " + _text_of(told["text"].replace("\\n", "\n").replace("\\", ""))


def _step_facts(key: tuple[int, int], step: StepOutcome) -> Facts:
    facts: Facts = {("outcome", *key): ending(step), ("passes", *key): len(step.passes)}
    if step.first_error is not None:
        facts["first error", *key] = _text_of(step.first_error)
    for number, error in step.failed.items():
        facts["failed", *key, number] = _text_of(error)
    for op, value in step.roots.items():
        facts["root", *key, op] = value
    for number, gradients in enumerate(step.passes):
        for leaf, gradient in gradients.items():
            facts["gradient", *key, number, leaf] = gradient
    return facts


def _values(program: Program, got: Outcome) -> Facts:
    facts: Facts = {}
    for place, values in got.kept.items():
        for output, value in enumerate(values):
            facts["kept", *place, output] = value
    for number, leaf in enumerate(got.leaves):
        facts["leaf", number] = leaf
    for trainer, number, step in program.steps:
        for field, index, _ in beside(step):
            thing = (trainer, number, field, index)
            fact = ("story", trainer, number, index) if field == "stories" else ("beside", *thing)
            facts[fact] = got.beside.get(thing, NO_END)
    for round, gathered in got.gathers.items():
        facts["gather", *round] = gathered
    return facts


def _tables(run: Run) -> list[dict[str, int]]:
    """What the workers' tables held at the end, by PyTorch's names."""
    counted = run.rpc_groups.tables if run.engine != "port" else _counted_on_port(run)
    if not counted:
        return run.when_stuck.tables
    # Calls are under way while tables are counted; where the run hangs they stay so.
    calls = [table.get(CALLS, 0) for table in run.when_stuck.tables] or [0] * len(counted)
    return [
        {**{name: table.get(name, 0) for name in LEFT}, CALLS: made}
        for table, made in zip(counted, calls, strict=True)
    ]


def _counted_on_port(run: Run) -> list[dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    at = [TABLES_COUNTED.fields.index(name) for name in _TABLES]
    for n in run.of(TABLES_COUNTED):
        _, worker, _, _, values = run.records[n]
        found[worker] = {name: values[i] for name, i in zip(LEFT, at, strict=True)}
    return [found.get(worker, {}) for worker in range(run.workers)] if found else []


def _messages(run: Run, got: Outcome) -> Facts:
    """Requests, and what became of them. A reply has the id of its request, from the other side."""
    steps = {step.context: key for key, step in got.steps.items() if step.context >= 0}
    counts: Counter[Place] = Counter()
    #: by (who asked, whom, id): the type, until it is answered
    asked: dict[tuple[int, int, int], str] = {}
    # Under faults the port makes steps of its own when they are over, before it counts and shuts down.
    began = len(run.records) if run.outcomes.recovery is None else run.outcomes.recovery.began
    counted = next((n for n in run.of(TABLES_COUNTED) if n >= began), len(run.records))
    #: contexts and references that the program has made
    known: set[Any] = set()
    others: set[tuple[int, int, int]] = set()
    torn = torn_down_at(run) if run.waits else len(run.records)
    for n in run.of(MESSAGE_SENT):
        if n >= torn:
            break
        values = run.records[n][4]
        if values[_ABOUT] and n < began:
            known.add(values[_ABOUT][0])
        name, about = str(values[_TYPE]), values[_ABOUT]
        src, dst, id = values[_SRC], values[_DST], values[_ID]
        of = steps.get(about[0]) if about and name in _OF_A_CONTEXT else None
        if name.endswith(("_RET", "_RESP", "_ACK")) or name == "EXCEPTION":
            if (dst, src, id) in others:
                continue
            request = asked.pop((dst, src, id), None)
            if request is None:
                counts["replies", name] += 1
            elif name == "EXCEPTION":
                counts["refused", request] += 1
            if name == "FORWARD_AUTOGRAD_RESP":
                counts["wrapped", of] += 1
            continue
        if began <= n < counted and (about or (None,))[0] not in known:
            others.add((src, dst, id))
            continue
        kind = name.removeprefix("SCRIPT_").removeprefix("PYTHON_")
        counts["requests", kind, of] += 1
        asked[src, dst, id] = kind
    # Replies of a worker that has left the group are not sent.
    for n in run.of(HANDLER_ENDED):
        if n >= torn:
            break
        _, worker, _, _, (src, _, id, error) = run.records[n]
        request = asked.pop((src, worker, id), None)
        if request is not None and error is not None:
            counts["refused", request] += 1
    for (_, worker, _), request in asked.items():
        counts["unanswered", request, worker] += 1
    return dict(counts)
