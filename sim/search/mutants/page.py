"""``python -m squall.sim.search.mutants.page > docs/mutants.md`` writes the page about planted bugs."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from squall.sim.search.mutants.families import FAMILIES, MUTANTS
from squall.sim.search.mutants.mutant import SCHEDULES

_TEMPLATES = Environment(
    loader=PackageLoader("squall.sim.search.mutants"),
    trim_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)


def page() -> str:
    """The page in Markdown."""
    template = _TEMPLATES.get_template("mutants.md")
    return template.render(schedules=SCHEDULES, families=FAMILIES, mutants=MUTANTS)


if __name__ == "__main__":
    print(page(), end="")
