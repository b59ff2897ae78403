"""The lives of RRefs: the owner's value, and every fork through its states."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from squall.real import tracing
from squall.sim.pictures.canvas import Clock
from squall.sim.pictures.flows import flows_of, name_of
from squall.sim.pictures.glossary import about_id
from squall.sim.pictures.lifetimes import Row, State, draw_rows
from squall.sim.pictures.palette import (
    BLUE,
    GREEN,
    INK,
    OLIVE,
    ORANGE,
    PALE,
    PALE_ORANGE,
    PALE_PURPLE,
    PALE_YELLOW,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
)
from squall.sim.pictures.recording import Recording, recording
from squall.sim.pictures.space_time import describe

Id = tuple[int, int]

ASKED = State("owner: asked for early", PALE_ORANGE, "/", ORANGE)
EMPTY = State("owner: no value yet", PALE_YELLOW, "", OLIVE)
VALUE = State("owner: value there", BLUE)
FAILED = State("owner: failed", VERMILION, "x", INK)
CHILD = State("fork on its way", PALE_PURPLE, "/", PURPLE)
NEW = State("user: made", SKY, "", SKY)
PENDING = State("user: pending", YELLOW, "", OLIVE)
CONFIRMED = State("user: confirmed", GREEN)
TIMED_OUT = State("user: timed out", VERMILION, "/", INK)
GONE = State("known to the owner still", PALE, ".", PALE)
STATES = [ASKED, EMPTY, VALUE, FAILED, CHILD, NEW, PENDING, CONFIRMED, TIMED_OUT, GONE]


def rrefs(run: object, *, clock: Clock = "auto") -> go.Figure:
    """A row for the owner of each RRef, a row for each of its forks below it, through their
    states, with the messages that moved them. Raises ValueError for an unknown clock."""
    run = recording(run)
    rows = _Lives(run).rows()
    return draw_rows(
        run,
        rows,
        STATES,
        clock=clock,
        title="RRef lives: owners and their forks",
        empty="no RRef was made in this run",
        things="rows",
    )


#: the states that events bring
_ENTERED = {
    tracing.OWNER_PENDING: ASKED,
    tracing.OWNER_CREATED: EMPTY,
    tracing.OWNER_FAILED: FAILED,
    tracing.USER_CREATED: NEW,
    tracing.USER_PENDING: PENDING,
    tracing.USER_CONFIRMED: CONFIRMED,
    tracing.USER_TIMED_OUT: TIMED_OUT,
}
_OF_OWNERS = (
    tracing.OWNER_PENDING,
    tracing.OWNER_CREATED,
    tracing.OWNER_VALUE_SET,
    tracing.OWNER_DELETED,
    tracing.OWNER_FAILED,
)


class _Lives:
    """The rows of a run, as its events fill them."""

    def __init__(self, run: Recording) -> None:
        self._run = run
        self._owners: dict[Id, Row] = {}
        self._forks: dict[Id, dict[Id, Row]] = {}
        #: whether the owner knows of a fork
        self._known: dict[Id, bool] = {}
        #: of forks that were made of other forks, their RRefs
        self._child_of: dict[Id, Id] = {}
        for number, (_, worker, _, type, values) in enumerate(run.records):
            if type in _OF_OWNERS:
                self._owner_event(number, worker, type, values)
            else:
                self._fork_event(number, worker, type, values)
        self._add_messages()

    def rows(self) -> list[Row]:
        """Each owner, and its forks below it."""
        found: list[Row] = []
        for rref in dict.fromkeys([*self._owners, *self._forks]):
            if rref in self._owners and self._owners[rref].states:
                row = self._owners[rref]
                row.label += f" at {self._run.name(row.worker)}"
                found.append(row)
            for row in self._forks.get(rref, {}).values():
                if row.states:
                    row.label += f" on {self._run.name(row.worker)}"
                    found.append(row)
        return found

    def _name(self, kind: str, id: Id) -> str:
        function = self._run.called.maker(id) if kind == "rref" else ""
        return self._run.called.thing(kind, id) + (f" ({function})" if function else "")

    def _owner(self, rref: Id, worker: int) -> Row:
        row = self._owners.get(rref)
        if row is None:
            row = self._owners[rref] = Row(
                self._name("rref", rref), worker, group=rref, about=about_id("rref", self._run.name(rref[0])),
            )  # fmt: skip
        if worker >= 0 and row.worker < 0:
            row.worker = worker
        return row

    def _fork(self, rref: Id, id: Id) -> Row:
        rows = self._forks.setdefault(rref, {})
        row = rows.get(id)
        if row is None:
            row = rows[id] = Row(
                self._name("fork", id), -1, group=rref, height=0.5, about=about_id("fork", self._run.name(id[0])),
            )  # fmt: skip
        return row

    def _owner_event(
        self, number: int, worker: int, type: tracing.EventType, values: tuple[Any, ...]
    ) -> None:
        row = self._owner(values[0], worker)
        state = _ENTERED.get(type)
        if state is EMPTY and row.states and row.states[-1][1] is VALUE:
            return  # the value came with it
        if state is not None:
            row.enter(number, state)
        elif type is tracing.OWNER_VALUE_SET:
            row.enter(number, VALUE)
            if values[1]:
                row.marks.append((number, "x", f"its value is an error: {values[1]}"))
        elif type is tracing.OWNER_DELETED:
            row.ended = number

    def _fork_event(
        self, number: int, worker: int, type: tracing.EventType, values: tuple[Any, ...]
    ) -> None:
        state = _ENTERED.get(type)
        if state is not None:
            row = self._fork(values[0], values[1])
            row.worker = worker
            row.enter(number, state)
            row.ended = -1
        elif type in (tracing.USER_DELETED, tracing.USER_DISCARDED):
            row = self._fork(values[0], values[1])
            if self._known.get(values[1]):
                row.enter(number, GONE)
            else:
                row.ended = number
        elif type is tracing.CHILD_PENDING:
            self._child_of[values[2]] = values[0]
            self._begin(self._fork(values[0], values[2]), number, worker)
        elif type is tracing.CHILD_ACCEPTED and values[0] in self._child_of:
            row = self._fork(self._child_of[values[0]], values[0])
            row.marks.append((number, "circle", f"accepted as a child at {self._run.name(worker)}"))
            if row.states[-1][1] is CHILD and not self._known.get(values[0]):
                row.ended = number  # it went to the owner, which has the value itself
        elif type is tracing.FORK_ADDED:
            self._known[values[1]] = True
            row = self._fork(values[0], values[1])
            self._begin(row, number, worker)
            row.marks.append((number, "star", f"{self._run.name(worker)}, the owner, knows of it"))
        elif type is tracing.FORK_DELETED:
            self._known[values[1]] = False
            self._fork(values[0], values[1]).ended = number

    @staticmethod
    def _begin(row: Row, number: int, worker: int) -> None:
        """The fork is on its way, if this is the first that is heard of it."""
        if not row.states:
            row.worker = worker
            row.enter(number, CHILD)

    def _add_messages(self) -> None:
        every = {id: row for rows in self._forks.values() for id, row in rows.items()}
        for flow in flows_of(self._run):
            ids = [item for item in flow.about if isinstance(item, tuple) and len(item) == 2]
            row = next((every[id] for id in reversed(ids) if id in every), None)
            if row is None:
                row = next((self._owners[id] for id in ids if id in self._owners), None)
            if row is None:
                continue
            text = describe(self._run, flow)
            name = name_of(self._run, flow)
            row.marks.append((flow.sent, "triangle-up", f"{name} leaves<br>{text}"))
            if flow.arrived >= 0:
                row.marks.append((flow.arrived, "triangle-up", f"{name} arrives<br>{text}"))
            elif flow.dropped >= 0:
                row.marks.append((flow.dropped, "x", f"{name} is lost<br>{text}"))
