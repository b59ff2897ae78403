"""``python -m squall.sim.search.mutants.explored_page results.json > docs/explored_mutants.md`` writes the
page about planted bugs in small worlds, from what ``squall mutants --explore --json`` has said."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from squall.sim.explore.worlds import WORLDS

_TEMPLATES = Environment(
    loader=PackageLoader("squall.sim.search.mutants"),
    trim_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)


def page(told: dict[str, Any]) -> str:
    """The page in Markdown."""
    template = _TEMPLATES.get_template("explored_mutants.md")
    found = [each for each in told["mutants"] if each["found"]]
    missed = [each for each in told["mutants"] if not each["found"]]
    lengths: dict[int, int] = {}
    for each in found:
        lengths[each["length"]] = lengths.get(each["length"], 0) + 1
    return template.render(
        worlds=WORLDS,
        found=sorted(found, key=lambda each: (each["length"], each["name"])),
        expected=[each for each in missed if each["expected"]],
        unseen=[each for each in missed if not each["expected"]],
        lengths=sorted(lengths.items()),
        seconds=told["seconds"],
    )


if __name__ == "__main__":
    print(page(json.loads(Path(sys.argv[1]).read_text())), end="")
