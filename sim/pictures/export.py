"""The joint autograd graph of a pass for other tools: DOT and GraphML."""

from __future__ import annotations

from io import BytesIO

import networkx as nx

from squall.sim.pictures.passes import Pass, Place, joint_graph, nodes_of, passes
from squall.sim.pictures.recording import Recording, recording
from squall.sim.pictures.spans import short_name

_SHAPES = {
    "root": "star",
    "send": "rarrow",
    "recv": "larrow",
    "leaf": "box",
    "node": "ellipse",
}


def pick(run: object, number: int | None = None) -> Pass:
    """The pass of that number, or the largest one. Raises ValueError if there is none."""
    found = passes(recording(run))
    if number is not None:
        found = [one for one in found if one.number == number]
    if not found:
        which = "no backward pass" if number is None else f"no backward pass {number}"
        raise ValueError(f"there is {which} with a graph in this run")
    return max(found, key=nodes_of)


def graphml(run: object, number: int | None = None) -> str:
    """GraphML of a pass: the attributes of nodes and edges are those of
    :func:`squall.sim.pictures.passes.joint_graph`. Raises ValueError if there is no such pass."""
    graph = joint_graph(pick(run, number))
    named = nx.relabel_nodes(graph, {place: _id(place) for place in graph})
    out = BytesIO()
    nx.write_graphml(named, out, infer_numeric_types=True)
    return out.getvalue().decode("utf-8")


def dot(run: object, number: int | None = None) -> str:
    """The same for Graphviz, a cluster for each worker. Raises ValueError as :func:`graphml`."""
    run = recording(run)
    one = pick(run, number)
    graph = joint_graph(one)
    lines = [
        "digraph joint {",
        "  rankdir=LR;",
        '  node [fontname="sans-serif", fontsize=10];',
    ]
    for worker in sorted(one.parts):
        lines.append(f"  subgraph cluster_{worker} {{")
        lines.append(f"    label={_quoted(_name(run, worker))};")
        for place, data in graph.nodes(data=True):
            if place[0] == worker:
                label = f"{short_name(data['name'])}\\n{data['dependencies']} dependencies"
                style = "" if data["needed"] else ", style=dashed"
                shape = _SHAPES[data["role"]]
                lines.append(
                    f"    {_quoted(_id(place))} [label={_quoted(label)}, shape={shape}{style}];"
                )
        lines.append("  }")
    for first, second, data in graph.edges(data=True):
        style = ' [color="#D55E00", style=dashed, constraint=true]' if data["crosses"] else ""
        lines.append(f"  {_quoted(_id(first))} -> {_quoted(_id(second))}{style};")
    lines.append("}")
    return "\n".join(lines) + "\n"


def _id(place: Place) -> str:
    return f"w{place[0]}n{place[1]}"


def _name(run: Recording, worker: int) -> str:
    return run.name(worker)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
