"""The user's files that a failure ran with: kept beside its script, and compared with what is there later.

A script's text is in its scenario, a function's module and what either imports are not: those would be read
again by each replay, and an edit would make it another run without a word. So a failure that is kept has
the text of each such file (``Script.modules``):

    kept = with_sources(scenario)                  as it is written down
    edited(kept)                                   which files are other now, a line each
    with as_it_was(kept) as scenario: ...          a replay with the files as they were
    as_now(kept)                                   what a replay with the files as they are runs
"""

from __future__ import annotations

import ast
import difflib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from squall.real.own_files import OWN_FILES
from squall.sim.scenario import CommandLine, Scenario, Script
from squall.sim.scripts.compat.program import belongs_to_python

#: so many files are kept at most, the nearest ones
MAX_FILES = 100


def with_sources(scenario: Scenario) -> Scenario:
    """The scenario, with the text of all files of the user's that its script imports."""
    script = scenario.script
    if script is None or script.modules:
        return scenario
    return replace(scenario, work=replace(script, modules=tuple(_imported(script).items())))


def edited(scenario: Scenario) -> list[str]:
    """Which files are not as they were, a line each."""
    script = scenario.script
    if script is None:
        return []
    kept = {**{line.path: line.text for line in _lines(script)}, **dict(script.modules)}
    told = []
    for path, text in kept.items():
        if path.endswith(".py") and (now := _read(path)) != text:
            told.append(f"{path} {_difference(text, now)}")
    return told


def as_now(scenario: Scenario) -> Scenario:
    """The scenario with all files as they are now; what is expected is what came of those that were
    kept. Raises OSError for a script that is not there any more."""
    script = scenario.script
    assert script is not None, "a program has no files"

    def now(line: CommandLine) -> str:
        return (
            Path(line.path).read_text(encoding="utf-8") if line.path.endswith(".py") else line.text
        )

    others = tuple(replace(line, text=now(line)) for line in script.others)
    work = replace(script, text=now(script), others=others, modules=())
    return replace(scenario, work=work)


@contextmanager
def as_it_was(scenario: Scenario) -> Iterator[Scenario]:
    """The scenario with all imported files as they were: if one is other now, they stand in a folder of
    their own, among links to what stood beside them."""
    script = scenario.script
    if script is None or all(_read(path) == text for path, text in script.modules):
        yield scenario
        return
    with tempfile.TemporaryDirectory(prefix="squall-as-it-was-") as folder:
        moved = _laid_out(script, Path(folder))
        path, text = _relocated(script, moved)
        others = tuple(_moved(line, moved) for line in script.others)
        work = replace(script, path=path, text=text, others=others, modules=())
        yield replace(scenario, work=work)


def _lines(script: Script) -> list[CommandLine]:
    return [script, *script.others]


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def _difference(text: str, now: str | None) -> str:
    if now is None:
        return "is gone"
    old, new = text.splitlines(), now.splitlines()
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    first = next((begin for tag, _, _, begin, _ in blocks if tag != "equal"), 0)
    return f"is another one from line {first + 1} on"


# -- what is imported -----------------------------------------------------------------------------


def _imported(script: Script) -> dict[str, str]:
    """The text of each file, by its path."""
    found: dict[str, str] = {}
    waiting: list[tuple[str, Path]] = []
    places = [Path(entry).absolute() for entry in sys.path if not belongs_to_python(entry)]
    for line in _lines(script):
        folder = Path(line.path).absolute().parent
        module, is_function, _ = Path(line.path).name.partition(":")
        if is_function:  # the script that squall has written for a function of this module
            waiting += [(name, folder) for name in _prefixes(module)]
        else:
            waiting += [(name, folder) for name in _names(line.text, None)]
    while waiting and len(found) < MAX_FILES:
        name, root = waiting.pop(0)
        for place in dict.fromkeys([root, *places]):
            path = _file_of(name, place)
            if path is None:
                continue
            text = _read(str(path))
            if text is not None and str(path) not in found:
                found[str(path)] = text
                package = name if path.name == "__init__.py" else name.rpartition(".")[0]
                waiting += [(each, place) for each in _names(text, package)]
            break
    return found


def _file_of(name: str, place: Path) -> Path | None:
    base = place.joinpath(*name.split("."))
    for path in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
        if path.is_file():
            own = str(path).startswith(OWN_FILES) or str(path.resolve()).startswith(OWN_FILES)
            return None if own else path
    return None


def _prefixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: n + 1]) for n in range(len(parts))]


def _names(text: str, package: str | None) -> list[str]:
    """Modules that a file may import, with the packages around them."""
    names: list[str] = []
    with suppress(SyntaxError):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                above = (package or "").split(".")[: 1 - node.level or None] if node.level else []
                base = ".".join([*above, *filter(None, [node.module])])
                names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return [each for name in dict.fromkeys(filter(None, names)) for each in _prefixes(name)]


# -- as it was ------------------------------------------------------------------------------------


def _laid_out(script: Script, folder: Path) -> dict[str, str]:
    """Write all kept files; by each folder of imports, the one that stands for it."""
    kept = [*script.modules, *((line.path, line.text) for line in _lines(script))]
    roots = {str(Path(line.path).absolute().parent) for line in _lines(script)}
    roots |= {os.path.abspath(entry) for entry in sys.path if not belongs_to_python(entry)}
    inside = [
        root
        for root in sorted(roots)
        if any(Path(path).is_relative_to(root) for path, _ in script.modules)
    ]
    moved = {root: str(folder / str(n)) for n, root in enumerate(inside)}
    for root, new in moved.items():
        for path, text in kept:
            if path.endswith(".py") and Path(path).is_relative_to(root):
                _write(Path(root), Path(new), Path(path).relative_to(root), text)
    return moved


def _write(root: Path, new: Path, relative: Path, text: str) -> None:
    """Write one file below ``new``, and links to what stands beside it and beside its folders."""
    for depth in range(len(relative.parts)):
        part = Path(*relative.parts[:depth])
        (new / part).mkdir(parents=True, exist_ok=True)
        for beside in (root / part).iterdir() if (root / part).is_dir() else ():
            link = new / part / beside.name
            if beside.name != relative.parts[depth] and beside.name != "__pycache__":
                with suppress(FileExistsError):
                    link.symlink_to(beside)
    target = new / relative
    if target.is_symlink():
        target.unlink()
    target.write_text(text, encoding="utf-8")


def _moved(line: CommandLine, moved: dict[str, str]) -> CommandLine:
    path, text = _relocated(line, moved)
    return replace(line, path=path, text=text)


def _relocated(line: CommandLine, moved: dict[str, str]) -> tuple[str, str]:
    """Path and text of a script whose folders of imports have moved."""
    path, text = Path(line.path).absolute(), line.text
    for root, new in sorted(moved.items(), key=lambda each: -len(each[0])):
        if ":" in path.name:  # the text that squall has written names places of imports
            text = text.replace(f"'{root}'", f"'{new}'").replace(
                f"'{root}{os.sep}", f"'{new}{os.sep}"
            )
    return str(Path(moved.get(str(path.parent), path.parent), path.name)), text
