"""What went wrong on purpose, as marks and shades: crashes, pauses, partitions, and the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squall.model.events.names import event_named
from squall.real import tracing
from squall.sim.pictures.canvas import Canvas
from squall.sim.pictures.labels import hit, hover, how, table
from squall.sim.pictures.palette import (
    BLACK,
    GREEN,
    MUTED,
    ORANGE,
    PURPLE,
    VERMILION,
    YELLOW,
)
from squall.sim.pictures.recording import Recording

_SYMBOLS = {
    "crash": ("x", VERMILION),
    "restart": ("circle-cross-open", BLACK),
    "pause": ("square", YELLOW),
    "partition": ("hash-open", PURPLE),
    "shutdown": ("hexagon", BLACK),
}
_SHADES = {
    "crash": "rgba(213,94,0,0.16)",
    "pause": "rgba(240,228,66,0.30)",
    "partition": "rgba(204,121,167,0.16)",
    "slow_cpu": "rgba(230,159,0,0.14)",
}


@dataclass(slots=True)
class Fault:
    """Something that went wrong on purpose at event ``first``, and the event where it was over
    (of a message: the same)."""

    first: int
    last: int
    kind: str
    item: str
    worker: int
    src: int
    dst: int
    type: str
    nth: int
    detail: object


def faults_of(run: Recording) -> list[Fault]:
    """All faults of a run, in their order.

    A crash lasts until the restart, a pause as long as it says, a slow processor until all
    is healed; a partition from the first to the last message that it cut.
    """
    names = tracing.FAULT_INJECTED.fields
    found: list[Fault] = []
    crashed: dict[int, Fault] = {}
    cut: dict[str, Fault] = {}
    healed = run.run.of(tracing.FAULTS_HEALED)
    end = healed[0] if healed else run.last
    for number in run.run.of(tracing.FAULT_INJECTED):
        said = dict(zip(names, run.records[number][4], strict=True))
        fault = Fault(
            number, number, said["kind"], str(said["item"]), said["worker"], said["src"],
            said["dst"], said["type"], said["nth"], said["detail"],
        )  # fmt: skip
        found.append(fault)
        if fault.kind == "crash":
            fault.last = run.last
            crashed[fault.worker] = fault
        elif fault.kind == "restart" and fault.worker in crashed:
            crashed.pop(fault.worker).last = number
        elif fault.kind == "pause":
            after_s = run.time_s(number) + float(str(fault.detail))
            fault.last = min(int(np.searchsorted(run.times, after_s)), max(end, number), run.last)
        elif fault.kind == "slow_cpu":
            fault.last = max(end, number)
        elif fault.kind == "partition":
            cut.setdefault(fault.item, fault).last = number
    return found


def draw_faults(canvas: Canvas, rows: dict[int, float]) -> None:
    """Shade and mark the faults of a run in its lanes."""
    run = canvas.run
    top, bottom = min(rows.values(), default=0.0), max(rows.values(), default=0.0)
    marks: dict[str, list[tuple[int, float, str]]] = {}
    for fault in faults_of(run):
        at = next((w for w in (fault.worker, fault.src, fault.dst) if w in rows), None)
        link = f"{run.name(fault.src)} → {run.name(fault.dst)}" if fault.src >= 0 else ""
        text = table(
            [
                ("when", hover(run, fault.first)),
                ("worker", run.name(fault.worker) if fault.worker >= 0 else ""),
                ("link", link),
                ("message", hit(fault.nth, fault.type) if fault.type else ""),
                ("how", how(fault.kind, fault.detail)),
            ],
            head=f"fault: {event_named(fault.kind)}",
        )
        marks.setdefault(fault.kind, []).append(
            (fault.first, top - 0.5 if at is None else rows[at], text)
        )
        if fault.last > fault.first and fault.kind in _SHADES:
            _shade(canvas, fault.kind, fault.worker, fault.first, fault.last, rows)
    for kind, found in marks.items():
        symbol, color = _SYMBOLS.get(kind, ("diamond-tall", ORANGE))
        canvas.marks(
            [number for number, _, _ in found],
            [at for _, at, _ in found],
            [text for _, _, text in found],
            marker={
                "symbol": symbol,
                "size": 15 if kind in _SYMBOLS and kind != "partition" else 9,
                "color": color,
                "line": {"width": 1.2, "color": BLACK if color != BLACK else MUTED},
            },
            name=f"fault: {event_named(kind)} ({len(found):,})",
        )
    for number in run.run.of(tracing.FAULTS_HEALED):
        canvas.shapes.append(
            {
                "type": "line",
                "xref": "x",
                "x0": canvas.at(number),
                "x1": canvas.at(number),
                "y0": bottom + 0.6,
                "y1": top - 0.6,
                "line": {"color": GREEN, "width": 1.5, "dash": "dash"},
                "label": {
                    "text": "faults healed",
                    # Below the edge of the picture, on the side of the line that has more room.
                    "textposition": "end",
                    "textangle": 0,
                    "yanchor": "top",
                    "xanchor": "right" if number > run.last / 2 else "left",
                    "font": {"size": 10, "color": GREEN},
                },
            }
        )


def _shade(
    canvas: Canvas, kind: str, worker: int, first: int, last: int, rows: dict[int, float]
) -> None:
    row = rows.get(worker)
    low, high = (
        (row - 0.32, row + 0.32)
        if row is not None
        else (min(rows.values(), default=0.0) - 0.7, max(rows.values(), default=0.0) + 0.7)
    )
    canvas.shapes.append(
        {
            "type": "rect",
            "xref": "x",
            "x0": canvas.at(first),
            "x1": canvas.at(last),
            "y0": low,
            "y1": high,
            "fillcolor": _SHADES[kind],
            "line": {"width": 0},
            "layer": "below",
            "label": {
                "text": event_named(kind),
                "textposition": "top left",
                "font": {"size": 10, "color": MUTED},
            },
        }
    )
