"""What went wrong on purpose, as marks and shades: crashes, pauses, partitions."""

from __future__ import annotations

from sim.timeline.canvas import Canvas


def draw_faults(canvas: Canvas, rows: dict[int, float]) -> None:
    """Shade and mark the faults of a run in its lanes."""
