"""The pages of ``squall serve``, from the templates beside this file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from squall.sim.scenario import Scenario
from squall.sim.scenarios.failure import Failure

_TEMPLATES = Environment(
    loader=PackageLoader("squall.sim.serve"),
    autoescape=True,
    trim_blocks=True,
    undefined=StrictUndefined,
)
_TEMPLATES.filters["date"] = lambda at: time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def style() -> str:
    """The style sheet, as it stands in each of these pages."""
    return _TEMPLATES.get_template("style.css").render()


def listing(failures: Sequence[Failure], runs: Sequence[Failure], folder: str, token: str) -> str:
    """The first page: failures, and other runs that are kept. ``token``: see server.py."""
    return _page("list.html", failures=failures, runs=runs, folder=folder, token=token)


def before(name: str, scenario: Scenario, refused: str | None, token: str) -> str:
    """What is shown of a run that has not taken place: what it is, and a button that starts it.

    ``refused``: why there is no such button.
    """
    values = {"scenario": scenario, "refused": refused, "token": token}
    return _page("before.html", name=name, **values)


def before_comparison(one: str, other: str, token: str) -> str:
    """What is shown of two runs that have not been compared: a button that does it."""
    return _page("before_compare.html", names=(one, other), token=token)


def comparison(one: str, other: str, found: dict[str, Any]) -> str:
    """Two runs side by side. ``found`` is what :func:`squall.sim.serve.work.compare` says."""
    return _page("compare.html", names=(one, other), found=found)


def problem(status: int, text: str) -> str:
    """What is shown instead of a page."""
    return _page("problem.html", status=status, text=text)


def _page(template: str, **values: Any) -> str:
    return _TEMPLATES.get_template(template).render(style=style(), **values)
