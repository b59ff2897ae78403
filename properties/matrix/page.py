"""The page about the matrix, docs/matrix.md: ``python -m squall.properties.matrix.page``."""

from __future__ import annotations

from squall.properties.matrix.rows import PYTHON, ROWS, TORCH, Row
from squall.properties.matrix.run import Result, load
from squall.properties.support.paths import DOCS

PAGE = DOCS / "matrix.md"

_HEAD = f"""\
# The same verdict on any machine

Written by `make matrix`, which runs the test suite, and digests of many scenarios (seeds of every
profile on both engines, all saved scenarios, examples and scripts), under conditions that must not
matter. A row has several of them at once: where it is as the first row, none of them matters. Of
versions there is a row for each Python and for each torch. Unless a row says otherwise it is Python
{PYTHON} and torch {TORCH}, which `constraints.txt` pins. `make matrix ARGS="--list"` lists the rows,
`ARGS="NAME …"` runs some of them, `--digests` leaves out the suite.

*Digests* counts those that are equal to the first row's. Where two differ in nothing but what torch
decides, they stand in the column beside it: how many bytes it pickles (names of files are among them),
texts of its errors, names of its nodes, and whether a call is a script call. The type of a message
decides how long it is under way, so more may follow from that: up to torch 2.13 the optimizers that
`DistributedOptimizer` makes are script functions, in torch 2.15 they are Python functions, and what
comes after a step on the engine `torch` has other times there.

| row | conditions | digests | differ in what torch decides | differ otherwise | suite | measured |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    """The page, from what is kept."""
    kept = load()
    lines = [_line(row, kept[row.name]) for row in ROWS if row.name in kept]
    notes = [note for row in ROWS if row.name in kept for note in _notes(row, kept[row.name])]
    return _HEAD + "\n".join(lines) + "\n" + ("\n" + "\n".join(notes) + "\n" if notes else "")


def _line(row: Row, result: Result) -> str:
    day = f"{result.day}, {result.commit}"
    if result.missing:
        return f"| `{row.name}` | {row.what} | not run | | | | {day} |"
    equal = result.digests - len(result.differ) - len(result.texts)
    suite = "not run"
    if result.suite is not None:
        failed = f", **{len(result.suite.failed)} failed**" if result.suite.failed else ""
        suite = f"{result.suite.passed} passed{failed}, {result.suite.skipped} skipped"
    cells = [f"`{row.name}`", row.what, f"{equal} of {result.digests}", str(len(result.texts)),
             str(len(result.differ)), suite, day]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _notes(row: Row, result: Result) -> list[str]:
    notes = []
    if result.missing:
        notes.append(f"- `{row.name}` did not run: {result.missing}")
    for names, how in ((result.texts, "in what torch decides"), (result.differ, "otherwise")):
        if names:
            notes.append(f"- `{row.name}` differs {how}: {', '.join(names)}")
    if result.suite is not None and result.suite.failed:
        notes.append(f"- `{row.name}` fails: {', '.join(result.suite.failed)}")
    return notes


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
