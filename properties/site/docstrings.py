"""Docstrings as Markdown: examples in blocks of their own, and names without roles of Sphinx."""

from __future__ import annotations

import re

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc|obj):`~?([^`]+)`")


def as_markdown(docstring: str) -> str:
    """What a docstring says, for a page.

    >>> print(as_markdown("Two of :class:`Run`.\\n\\n>>> 1 + 1\\n2"))
    Two of `Run`.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    lines: list[str] = []
    example = False
    for line in docstring.splitlines():
        if line.lstrip().startswith(">>> ") and not example:
            lines.append("```pycon")
            example = True
        elif example and not line.strip():
            lines.append("```")
            example = False
        lines.append(line if example else _ROLE.sub(_name, line))
    return "\n".join([*lines, "```"] if example else lines)


def _name(role: re.Match[str]) -> str:
    return f"`{role[1].removeprefix('squall.sim.library.')}`"
