"""What went wrong on purpose, as marks and shades: crashes, pauses, partitions, and the rest."""

from __future__ import annotations

from real import tracing
from sim.timeline.canvas import Canvas, hover, table
from sim.timeline.palette import BLACK, MUTED, ORANGE, PURPLE, VERMILION, YELLOW

#: kinds of faults that hit a message: their message shows them already
_OF_MESSAGES = ("drop", "delay", "duplicate", "hold", "corrupt", "fail", "loss")
_SYMBOLS = {
    "crash": ("x", VERMILION),
    "restart": ("circle-cross-open", BLACK),
    "pause": ("square", YELLOW),
    "resume": ("square-open", BLACK),
    "partition": ("hash-open", PURPLE),
    "shutdown": ("hexagon", BLACK),
}
#: what ends what: the time between is shaded
_SPANS = {"crash": "restart", "pause": "resume", "partition": "heal", "slow_cpu": "heal"}
_SHADES = {
    "crash": "rgba(213,94,0,0.16)",
    "pause": "rgba(240,228,66,0.30)",
    "partition": "rgba(204,121,167,0.20)",
    "slow_cpu": "rgba(230,159,0,0.14)",
}


def draw_faults(canvas: Canvas, rows: dict[int, float]) -> None:
    """Shade and mark the faults of a run in its lanes."""
    run = canvas.run
    marks: dict[str, list[tuple[int, float, str]]] = {}
    on_messages = 0
    open_spans: dict[tuple[str, int], int] = {}
    for number in run.run.of(tracing.FAULT_INJECTED):
        kind, item, worker, src, dst, type, nth, detail = run.records[number][4]
        if kind in _OF_MESSAGES and type:
            on_messages += 1
        at = next((w for w in (worker, src, dst) if w in rows), None)
        text = table(
            [
                ("when", hover(run, number)),
                ("worker", run.name(worker) if worker >= 0 else ""),
                ("link", f"{run.name(src)} → {run.name(dst)}" if src >= 0 and dst >= 0 else ""),
                ("message", f"{type} {nth}" if type else ""),
                ("how", detail),
                ("item", item),
            ],
            head=f"fault: {kind}",
        )
        marks.setdefault(kind, []).append((number, -0.5 if at is None else rows[at], text))
        if kind in _SPANS:
            open_spans.setdefault((kind, worker), number)
        for begun, end in _SPANS.items():
            if kind == end:
                for known in [k for k in open_spans if k[0] == begun and worker in (-1, k[1])]:
                    _shade(canvas, begun, known[1], open_spans.pop(known), number, rows)
    for (kind, worker), number in open_spans.items():
        _shade(canvas, kind, worker, number, run.last, rows)
    for kind, found in marks.items():
        symbol, color = _SYMBOLS.get(kind, ("diamond-tall", ORANGE))
        canvas.marks(
            [number for number, _, _ in found],
            [at for _, at, _ in found],
            [text for _, _, text in found],
            marker={
                "symbol": symbol,
                "size": 9 if kind in _OF_MESSAGES else 15,
                "color": color,
                "line": {"width": 1.2, "color": BLACK if color != BLACK else MUTED},
            },
            name=f"fault: {kind.replace('_', ' ')} ({len(found):,})",
        )


def _shade(
    canvas: Canvas, kind: str, worker: int, first: int, last: int, rows: dict[int, float]
) -> None:
    row = rows.get(worker)
    low, high = (row - 0.32, row + 0.32) if row is not None else (-0.7, len(rows) - 0.3)
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
                "text": kind.replace("_", " "),
                "textposition": "top left",
                "font": {"size": 10, "color": MUTED},
            },
        }
    )
