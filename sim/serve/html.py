"""The pages of ``squall serve``, from the templates beside this file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from squall.sim.campaigns.status import KindStatus, Status
from squall.sim.pictures.page import colors
from squall.sim.scenario import Scenario
from squall.sim.scenarios.failure import Failure
from squall.sim.search.histories import KeptHistory
from squall.sim.serve.campaign import REFRESH_S, speed_curve, words_of

_TEMPLATES = Environment(
    loader=PackageLoader("squall.sim.serve"),
    autoescape=True,
    trim_blocks=True,
    undefined=StrictUndefined,
)
_TEMPLATES.filters["date"] = lambda at: time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
_TEMPLATES.filters["path"] = lambda path: escape(path).replace("/", Markup("/<wbr>"))


def style() -> str:
    """The style sheet, as it stands in each of these pages."""
    return colors() + _TEMPLATES.get_template("style.css").render()


def listing(
    failures: Sequence[Failure],
    runs: Sequence[Failure],
    histories: Sequence[KeptHistory],
    folder: str,
    token: str,
    campaign: str | None = None,
) -> str:
    """The first page: failures, other runs that are kept, and what campaigns have seen. ``token``:
    see server.py. ``campaign``: the store of one that has a page of its own."""
    values = {"failures": failures, "runs": runs, "histories": histories, "campaign": campaign}
    return _page("list.html", folder=folder, token=token, **values)


def campaign_page(status: Status, failures: Sequence[Failure]) -> str:
    """How far a campaign is; a browser asks again by itself until it has ended. ``failures``: what
    is kept, among which may be those of the campaign."""
    curve, words = speed_curve(status.speed), words_of(status)
    runs = [_run_of(kind, failures) for kind in status.kinds]
    values = {"status": status, "curve": curve, "words": words, "runs": runs}
    return _page("campaign.html", refresh_s=REFRESH_S, **values)


def _run_of(kind: KindStatus, failures: Sequence[Failure]) -> str | None:
    """The name of a run that is kept and shows the same, of the same seed if there is one."""
    same = [
        kept
        for kept in failures
        if (kept.expected.property, kept.expected.what) == (kind.property, kind.what)
    ]
    same.sort(key=lambda kept: kept.scenario.seed != kind.seed)
    return same[0].name if same else None


def before(
    name: str, scenario: Scenario, failure: Failure | None, refused: str | None, token: str
) -> str:
    """What is shown of a run that has not taken place: what it is, what is known of it if it is a ``failure``, and a
    button that starts it.

    ``refused``: why there is no such button.
    """
    values = {"scenario": scenario, "failure": failure, "refused": refused, "token": token}
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
