"""What imports what, read from the source: imports in functions and for type checkers count too."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import networkx as nx


def import_graph(package: str) -> nx.DiGraph[str]:
    """The imports between the modules of ``package``, each module by its full name.

    An edge leads from whoever imports to what it imports. Its attribute ``kinds`` is the set of
    how that is done: "module" when the file is loaded, "function" when a function is called,
    "typing" for type checkers alone. Packages stand for their ``__init__.py``: to import a
    module from a package is an edge to that module and none to the package, whose code runs
    before but does not wait for it. Raises ModuleNotFoundError if there is no such package.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"no package named {package}")
    files = dict(_modules(package, Path(spec.submodule_search_locations[0])))
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(files)
    for module, file in files.items():
        is_package = file.name == "__init__.py"
        for kind, statement in _imports(ast.parse(file.read_text(encoding="utf-8"))):
            for target in _targets(statement, module, is_package, files):
                if target != module:
                    graph.add_edge(module, target)
                    graph.edges[module, target].setdefault("kinds", set()).add(kind)
    return graph


def circles(graph: nx.DiGraph[str]) -> list[list[str]]:
    """The groups of modules that import each other in circles, as lines "a -> b (kinds)"."""
    found = []
    for group in nx.strongly_connected_components(graph):
        if len(group) > 1:
            inside = graph.subgraph(group)
            found.append(
                sorted(
                    f"{a} -> {b} ({', '.join(sorted(kinds))})"
                    for a, b, kinds in inside.edges(data="kinds")
                )
            )
    return sorted(found)


def _modules(package: str, folder: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*.py")):
        parts = file.relative_to(folder).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        yield ".".join((package, *parts)), file


def _imports(
    node: ast.AST, kind: str = "module"
) -> Iterator[tuple[str, ast.Import | ast.ImportFrom]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import() | ast.ImportFrom():
                yield kind, child
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from _imports(child, "function")
            case ast.If(test=test) if ast.unparse(test).endswith("TYPE_CHECKING"):
                for line in child.body:
                    yield from _imports(ast.Module([line], []), "typing")
                for line in child.orelse:
                    yield from _imports(ast.Module([line], []), kind)
            case _:
                yield from _imports(child, kind)


def _targets(
    statement: ast.Import | ast.ImportFrom, module: str, is_package: bool, known: dict[str, Path]
) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names if alias.name in known)
        return
    base = statement.module or ""
    if statement.level:
        parts = module.split(".")
        above = parts[: len(parts) - statement.level + (1 if is_package else 0)]
        base = ".".join((*above, base)) if base else ".".join(above)
    for alias in statement.names:
        if f"{base}.{alias.name}" in known:
            yield f"{base}.{alias.name}"
        elif base in known:
            yield base
