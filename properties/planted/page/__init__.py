"""``python -m squall.properties.planted.page > docs/mutants.md`` writes the page about planted bugs.

What it says of small worlds is in ``explored.json``, where ``squall mutants --explore --json`` has written it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from squall.sim.search.mutants.mutant import SCHEDULES
from squall.sim.search.mutants.registry import FAMILIES, FAMILIES_OF_GROUPS, MUTANTS

_EXPLORED = Path(__file__).with_name("explored.json")
_TEMPLATES = Environment(
    loader=PackageLoader(__name__),
    trim_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)


def page() -> str:
    """The page in Markdown."""
    template = _TEMPLATES.get_template("mutants.md")
    return template.render(
        schedules=SCHEDULES,
        families=FAMILIES,
        of_groups=FAMILIES_OF_GROUPS,
        mutants=MUTANTS,
        **_explored(),
    )


def _explored() -> dict[str, Any]:
    told = json.loads(_EXPLORED.read_text(encoding="utf-8"))
    found = [each for each in told["mutants"] if each["found"]]
    missed = [each for each in told["mutants"] if not each["found"]]
    return {
        "found": sorted(found, key=lambda each: (each["length"], each["name"])),
        "expected": [each for each in missed if each["expected"]],
        "unseen": [each for each in missed if not each["expected"]],
        "lengths": sorted(Counter(each["length"] for each in found).items()),
        "seconds": told["seconds"],
    }
