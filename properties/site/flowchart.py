"""The flowcharts of the documentation as pictures: a site that needs no network has no Mermaid.

Boxes stand in rows, each below what leads to it; a subgraph is a frame, and frames stand one below the
other. That is all of Mermaid that docs/architecture.md uses.
"""

from __future__ import annotations

import html
import re

import networkx as nx

_BLOCK = re.compile(r"^```mermaid\nflowchart TD\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BOX = re.compile(r'^(\w+)\["(.*)"\]$')
_ARROW = re.compile(r"^(\w+) [-=]+> (\w+)$")

#: of the picture, in its own units, which a page shrinks to its width
WIDTH, ROW, HIGH, LETTER, GAP = 900, 62, 28, 7.4, 44


def without_mermaid(text: str) -> str:
    """A page with a picture in the place of each flowchart."""
    return _BLOCK.sub(lambda found: drawn(found[1]), text)


def drawn(chart: str) -> str:
    """An SVG element for what stands in a block ``flowchart TD``."""
    frames: dict[str, nx.DiGraph[str]] = {}
    labels: dict[str, str] = {}
    frame: nx.DiGraph[str] = nx.DiGraph()
    for line in map(str.strip, chart.splitlines()):
        if line.startswith("subgraph "):
            frame = frames[line.removeprefix("subgraph ")] = nx.DiGraph()
        elif box := _BOX.match(line):
            labels[box[1]] = box[2]
            frame.add_node(box[1])
        elif (arrow := _ARROW.match(line)) and arrow[1] in frame:
            frame.add_edge(arrow[1], arrow[2])
    parts: list[str] = []
    top = 8.0
    for name, graph in frames.items():
        inside, height = _frame(graph, labels, top + 26)
        parts.append(
            f'<rect x="4" y="{top:g}" width="{WIDTH - 8}" height="{height + 26:g}" rx="6" '
            'fill="none" stroke="currentColor" stroke-opacity=".35"/>'
            f'<text x="16" y="{top + 20:g}" font-weight="bold">{html.escape(name)}</text>'
        )
        parts += inside
        top += height + 26 + 14
    return (
        f'<svg viewBox="0 0 {WIDTH} {top:g}" role="img" style="width:100%" font-size="13" '
        'font-family="monospace" fill="currentColor">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
        f"{''.join(parts)}</svg>"
    )


def _rows(graph: nx.DiGraph[str]) -> list[list[str]]:
    """Boxes by how many arrows lead to them one after the other; those of a circle share a row."""
    whole = nx.condensation(graph)
    members = nx.get_node_attributes(whole, "members")
    rows: dict[int, list[str]] = {}
    depth: dict[int, int] = {}
    for group in nx.topological_sort(whole):
        depth[group] = max((depth[one] + 1 for one in whole.predecessors(group)), default=0)
        rows.setdefault(depth[group], []).extend(sorted(members[group]))
    return [rows[number] for number in sorted(rows)]


def _frame(graph: nx.DiGraph[str], labels: dict[str, str], top: float) -> tuple[list[str], float]:
    """The boxes and arrows of a frame, and its height."""
    rows = _rows(graph)
    middle: dict[str, float] = {}
    width = {one: len(labels[one]) * LETTER + 18 for one in graph}
    height: dict[str, float] = {}
    for number, row in enumerate(rows):
        # Close to what leads there, so that few arrows cross.
        row.sort(key=lambda one: (_mean([middle[p] for p in graph.predecessors(one) if p in middle]), one))  # fmt: skip
        space = sum(width[one] for one in row) + GAP * (len(row) - 1)
        left = (WIDTH - space) / 2
        for one in row:
            middle[one] = left + width[one] / 2
            height[one] = top + 6 + number * ROW
            left += width[one] + GAP
    parts = []
    for one, other in sorted(graph.edges):
        begin, end = height[one] + HIGH, height[other]
        if begin > end:  # a circle: from side to side
            sign = 1 if middle[one] < middle[other] else -1
            x, to = middle[one] + sign * width[one] / 2, middle[other] - sign * width[other] / 2
            y = height[one] + HIGH / 2
            path = f"M{x:g} {y:g}L{to:g} {y:g}"
        else:
            path = f"M{middle[one]:g} {begin:g}L{middle[other]:g} {end:g}"
        parts.append(
            f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".5" '
            'marker-end="url(#tip)"/>'
        )
    for one in sorted(graph):
        parts.append(
            f'<rect x="{middle[one] - width[one] / 2:g}" y="{height[one]:g}" width="{width[one]:g}" '
            f'height="{HIGH}" rx="4" fill="var(--md-default-bg-color, #fff)" stroke="currentColor"/>'
            f'<text x="{middle[one]:g}" y="{height[one] + 18:g}" text-anchor="middle">'
            f"{html.escape(labels[one])}</text>"
        )
    return parts, len(rows) * ROW - ROW + HIGH + 20


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else WIDTH / 2
