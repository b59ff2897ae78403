"""The table of docs/faults.md: each kind of fault, in the words of its docstring.

python -m squall.sim.faults.table
"""

from __future__ import annotations

import inspect

from squall.sim.faults.registry import GROUPS


def table() -> str:
    """All kinds as rows of Markdown, by groups."""
    lines = ["| group | kind | what |", "|---|---|---|"]
    for group, kinds in GROUPS.items():
        shown = f"`{group}`"
        for name, kind in kinds.items():
            what = " ".join((inspect.getdoc(kind) or "").split()).replace("``", "`")
            lines.append(f"| {shown} | `{name}` | {what} |")
            shown = ""
    return "\n".join(lines).replace("|  |", "| |")


if __name__ == "__main__":
    print(table())
