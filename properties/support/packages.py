"""The picture in docs/architecture.md: packages, and which of them import which, from the source.

    python -m squall.properties.support.packages      (make architecture) writes it anew

A package is a folder, or a module that stands beside the folders. An arrow leads from a package to what
it imports; where one follows from others it is left out.
"""

from __future__ import annotations

import re
from itertools import pairwise

import networkx as nx

from squall.properties.support.import_graph import import_graph
from squall.properties.support.paths import DOCS, ROOT

PAGE = DOCS / "architecture.md"
BEGIN, END = "<!-- packages: begin -->\n", "<!-- packages: end -->\n"
PARTS = ("sim", "model", "real")


def package(module: str) -> str:
    """The package of a module: ``sim/world`` for ``squall.sim.world.network``."""
    _, part, *rest = module.split(".")
    folder = ROOT / part / (rest[0] if rest else "")
    return (
        f"{part}/{rest[0]}" if len(rest) > 1 or (rest and folder.is_dir()) else _single(part, rest)
    )


def _single(part: str, rest: list[str]) -> str:
    # What stands beside the folders of real/ are small parts that all of its packages use.
    return part if part == "real" or not rest else f"{part}/{rest[0]}.py"


def packages(part: str) -> nx.DiGraph[str]:
    """The packages of one part and their imports."""
    found: nx.DiGraph[str] = nx.DiGraph()
    for module, target in import_graph(f"squall.{part}").edges:
        one, other = package(module), package(target)
        found.add_nodes_from((one, other))
        if one != other:
            found.add_edge(one, other)
    return found


def arrows(graph: nx.DiGraph[str]) -> list[tuple[str, str]]:
    """The imports that do not follow from others."""
    if nx.is_directed_acyclic_graph(graph):
        graph = nx.transitive_reduction(graph)
    return sorted(graph.edges)


def picture() -> str:
    """The packages as a Mermaid diagram."""
    lines = ["```mermaid", "flowchart TD"]
    for part in PARTS:
        graph = packages(part)
        lines.append(f"    subgraph {part}")
        lines += [f'        {_id(one)}["{_label(one)}"]' for one in sorted(graph)]
        lines += [f"        {_id(one)} --> {_id(other)}" for one, other in arrows(graph)]
        lines.append("    end")
    lines += [f"    {one} ==> {other}" for one, other in pairwise(PARTS)]
    return "\n".join([*lines, "```"]) + "\n"


def _label(one: str) -> str:
    return "runtime, future, tracing, worker, …" if one == "real" else one.partition("/")[2]


def _id(one: str) -> str:
    return re.sub(r"\W", "_", one) + ("_base" if one == "real" else "")


def page(text: str) -> str:
    """The page with its picture made anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{picture()}\n{END}{after}"


def main() -> None:
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
