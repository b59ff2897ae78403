"""The pages of ``squall serve``, from the templates beside this file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from squall.sim.scenarios.failure import Failure

_TEMPLATES = Environment(
    loader=PackageLoader("squall.sim.serve"),
    autoescape=True,
    trim_blocks=True,
    undefined=StrictUndefined,
)
_TEMPLATES.filters["date"] = lambda at: time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def listing(failures: Sequence[Failure], runs: Sequence[Failure], folder: str) -> str:
    """The first page: failures, and other runs that are kept."""
    return _page("list.html", failures=failures, runs=runs, folder=folder)


def comparison(one: str, other: str, found: dict[str, Any]) -> str:
    """Two runs side by side. ``found`` is what :func:`squall.sim.serve.work.compare` says."""
    return _page("compare.html", names=(one, other), found=found)


def problem(status: int, text: str) -> str:
    """What is shown instead of a page."""
    return _page("problem.html", status=status, text=text)


def _page(template: str, **values: Any) -> str:
    return _TEMPLATES.get_template(template).render(values)
