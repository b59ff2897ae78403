"""``make bench``, from commit to commit: what rows cost beside a fixed old commit is kept and drawn, and a fall is told.

    python -m benchmarks.history                measure what is here (--of COMMIT: another commit; --show: nothing)

``history.json`` gets an entry, ``build/bench.html`` is drawn, and each row that has fallen is told.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.turns import FIXED, ROOT, measured

KEPT, PAGE = ROOT / "benchmarks" / "history.json", ROOT / "build" / "bench.html"
#: a ratio has fallen that is less than this part of what two of the last ten entries have reached
FALL, LAST = 0.9, 10


def falls(history: list[dict[str, Any]]) -> list[str]:
    """A line for each row whose ratio has fallen in the last entry."""
    *before, last = history
    lines = []
    for row, now in last["rows"].items():
        same = [each for each in before if each["against"] == last["against"]]
        reached = sorted(
            (each["rows"][row]["ratio"], each["commit"])
            for each in same[-LAST:]
            if each["rows"].get(row, {}).get("ratio")
        )[-2:]
        if reached and now["ratio"] < FALL * reached[0][0]:
            best, commit = reached[0]
            part = 1 - now["ratio"] / best
            lines.append(
                f"{row}: {now['ratio']:.2f} times as fast as {last['against']}, {part:.0%} less than "
                f"the {best:.2f} of {commit}, at a load of {last['load']:g}"
            )
    return lines


def draw(history: list[dict[str, Any]], page: Path) -> None:
    """A page with a line for each row that has ratios."""
    import plotly.graph_objects as go

    from squall.sim.pictures.figure_page import figure_page

    figure = go.Figure()
    for row in [row for row, now in history[-1]["rows"].items() if now["ratio"]]:
        points = [(each, each["rows"][row]) for each in history if row in each["rows"]]
        figure.add_scatter(
            x=[f"{each['commit']}<br>{each['date']}" for each, _ in points],
            y=[point["ratio"] for _, point in points],
            text=[f"{point['now']:g}; {each['machine']}" for each, point in points],
            name=row,
        )
    figure.update_layout(yaxis_title=f"times as fast as {history[-1]['against']}", height=640)
    page.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(falls(history)) or "No ratio has fallen."
    page.write_text(figure_page(figure, "What squall costs, by commit", text=text), "utf-8")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history")
    parser.add_argument("--of", metavar="COMMIT", help="measure this commit, not what is here")
    parser.add_argument("--show", action="store_true", help="draw and tell what is kept")
    asked = parser.parse_args(words)
    history = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else []
    if not asked.show:
        try:
            entry = measured(asked.of)
        except RuntimeError as error:
            print(f"nothing is measured: {error}", file=sys.stderr)
            return 2
        history = [*(each for each in history if each["commit"] != entry["commit"]), entry]
        KEPT.write_text(json.dumps(history, indent=1) + "\n", "utf-8")
    draw(history, PAGE)
    for row, now in history[-1]["rows"].items():
        ratio = f", {now['ratio']:.2f} times as fast as {FIXED}" if now["ratio"] else ""
        print(f"{row}: {now['now']:g}{ratio}")
    print("\n".join(f"FALLEN: {line}" for line in falls(history)) or "no ratio has fallen")
    return 0


if __name__ == "__main__":
    sys.exit(main())
