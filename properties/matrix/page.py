"""The table of the matrix in docs/proven.md: ``python -m squall.properties.matrix.page``."""

from __future__ import annotations

from squall.properties.matrix.rows import ROWS, Row
from squall.properties.matrix.run import Result, load
from squall.properties.support.paths import DOCS

PAGE = DOCS / "proven.md"
_BEGIN, _END = "<!-- matrix -->\n", "<!-- end of matrix -->\n"
_HEAD = """\
| row | conditions | digests | differ in what torch decides | differ otherwise | suite | measured |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    """The page, with the table as it follows from what is kept."""
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return before + begin + "\n" + _table() + "\n" + end + after


def _table() -> str:
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
