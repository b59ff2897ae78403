"""The lives of RRefs: the owner's value, and every fork through its states."""

from __future__ import annotations

import plotly.graph_objects as go

from squall.real import tracing
from squall.sim.pictures.canvas import Clock
from squall.sim.pictures.flows import flows_of
from squall.sim.pictures.palette import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    message_name,
)
from squall.sim.pictures.recording import Recording, recording
from squall.sim.pictures.rows import Row, State, draw_rows
from squall.sim.pictures.space_time import describe

Id = tuple[int, int]

ASKED = State("owner: asked for early", "#fbe7c6", "/", ORANGE)
EMPTY = State("owner: no value yet", "#fbf6c0", "", "#a89b00")
VALUE = State("owner: value there", BLUE)
FAILED = State("owner: failed", VERMILION, "x", INK)
CHILD = State("fork on its way", "#f3e3ec", "/", PURPLE)
NEW = State("user: made", SKY, "", SKY)
PENDING = State("user: pending", YELLOW, "", "#a89b00")
CONFIRMED = State("user: confirmed", GREEN)
TIMED_OUT = State("user: timed out", VERMILION, "/", INK)
GONE = State("known to the owner still", PALE, ".", PALE)
STATES = [ASKED, EMPTY, VALUE, FAILED, CHILD, NEW, PENDING, CONFIRMED, TIMED_OUT, GONE]


def rrefs(run: object, *, clock: Clock = "auto") -> go.Figure:
    """A row for the owner of each RRef, a row for each of its forks below it, through their
    states, with the messages that moved them. Raises ValueError for an unknown clock."""
    run = recording(run)
    rows = _rows(run)
    return draw_rows(
        run,
        rows,
        STATES,
        clock=clock,
        title="RRef lives: owners and their forks",
        empty="no RRef was made in this run",
        things="rows",
    )


def _rows(run: Recording) -> list[Row]:
    owners: dict[Id, Row] = {}
    forks: dict[Id, dict[Id, Row]] = {}
    known: dict[Id, bool] = {}

    def owner(rref: Id, worker: int) -> Row:
        row = owners.get(rref)
        if row is None:
            row = owners[rref] = Row(f"RRef {_text(rref)}", worker, group=rref)
        if worker >= 0 and row.worker < 0:
            row.worker = worker
        return row

    def fork(rref: Id, id: Id) -> Row:
        rows = forks.setdefault(rref, {})
        row = rows.get(id)
        if row is None:
            row = rows[id] = Row(f"fork {_text(id)}", -1, group=rref, height=0.5)
        return row

    types = {
        tracing.OWNER_PENDING: ASKED,
        tracing.OWNER_CREATED: EMPTY,
        tracing.OWNER_FAILED: FAILED,
        tracing.USER_CREATED: NEW,
        tracing.USER_PENDING: PENDING,
        tracing.USER_CONFIRMED: CONFIRMED,
        tracing.USER_TIMED_OUT: TIMED_OUT,
    }
    child_of: dict[Id, Id] = {}
    for number, (_, worker, _, type, values) in enumerate(run.records):
        state = types.get(type)
        if type in _OF_OWNERS:
            row = owner(values[0], worker)
            if state is EMPTY and row.states and row.states[-1][1] is VALUE:
                continue  # the value came with it
            if state is not None:
                row.enter(number, state)
            elif type is tracing.OWNER_VALUE_SET:
                row.enter(number, VALUE)
                if values[1]:
                    row.marks.append((number, "x", f"its value is an error: {values[1]}"))
            elif type is tracing.OWNER_DELETED:
                row.ended = number
        elif state is not None:
            row = fork(values[0], values[1])
            row.worker = worker
            row.enter(number, state)
            row.ended = -1
        elif type in (tracing.USER_DELETED, tracing.USER_DISCARDED):
            row = fork(values[0], values[1])
            if known.get(values[1]):
                row.enter(number, GONE)
            else:
                row.ended = number
        elif type is tracing.CHILD_PENDING:
            child_of[values[2]] = values[0]
            row = fork(values[0], values[2])
            if not row.states:
                row.worker = worker
                row.enter(number, CHILD)
        elif type is tracing.CHILD_ACCEPTED and values[0] in child_of:
            row = fork(child_of[values[0]], values[0])
            row.marks.append((number, "circle", f"accepted as a child at {run.name(worker)}"))
            if row.states[-1][1] is CHILD and not known.get(values[0]):
                row.ended = number  # it went to the owner, which has the value itself
        elif type is tracing.FORK_ADDED:
            known[values[1]] = True
            row = fork(values[0], values[1])
            if not row.states:
                row.worker = worker
                row.enter(number, CHILD)
            row.marks.append((number, "star", f"{run.name(worker)}, the owner, knows of it"))
        elif type is tracing.FORK_DELETED:
            known[values[1]] = False
            row = fork(values[0], values[1])
            row.ended = number
    _messages(run, owners, forks)
    found: list[Row] = []
    for rref in dict.fromkeys([*owners, *forks]):
        if rref in owners and owners[rref].states:
            row = owners[rref]
            row.label += f" at {run.name(row.worker)}"
            found.append(row)
        for row in forks.get(rref, {}).values():
            if row.states:
                row.label += f" on {run.name(row.worker)}"
                found.append(row)
    return found


_OF_OWNERS = (
    tracing.OWNER_PENDING,
    tracing.OWNER_CREATED,
    tracing.OWNER_VALUE_SET,
    tracing.OWNER_DELETED,
    tracing.OWNER_FAILED,
)


def _messages(run: Recording, owners: dict[Id, Row], forks: dict[Id, dict[Id, Row]]) -> None:
    every = {id: row for rows in forks.values() for id, row in rows.items()}
    for flow in flows_of(run):
        ids = [item for item in flow.about if isinstance(item, tuple) and len(item) == 2]
        row = next((every[id] for id in reversed(ids) if id in every), None)
        if row is None:
            row = next((owners[id] for id in ids if id in owners), None)
        if row is None:
            continue
        text = describe(run, flow)
        name = message_name(flow.type)
        row.marks.append((flow.sent, "triangle-up", f"{name} leaves<br>{text}"))
        if flow.arrived >= 0:
            row.marks.append((flow.arrived, "triangle-up", f"{name} arrives<br>{text}"))
        elif flow.dropped >= 0:
            row.marks.append((flow.dropped, "x", f"{name} is lost<br>{text}"))


def _text(id: Id) -> str:
    return f"{id[0]}:{id[1]}"
