"""Which styles and scripts a page may have: no page has one that its own text brings along, as the policy that goes with it
names the few that squall has, by their digests."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from hashlib import sha256

from squall.sim.names import PlotlyFrom
from squall.sim.pictures.figure_page import figure_scripts
from squall.sim.pictures.page import scripts, styles
from squall.sim.pictures.plotly_js import linked
from squall.sim.serve.html import style


def _policy(styles: Iterable[str], scripts: Iterable[str], place: str = "") -> str:
    """For a page with these styles and scripts alone, which fetches nothing from anywhere but one
    ``place``."""
    style, script = (" ".join(map(_source, texts)) for texts in (styles, scripts))
    script = f"{script} {place}".strip()
    # plotly makes functions of text where it draws with WebGL.
    allowed = f"script-src {script} 'unsafe-eval'; worker-src blob:; " if script else ""
    return (
        f"default-src 'none'; {allowed}style-src {style}; img-src data: blob:; frame-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    )


def _source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def of_timelines(plotly: PlotlyFrom) -> str:
    return _policy(styles(), scripts(), _place_of(plotly))


@cache
def of_figures(plotly: PlotlyFrom) -> str:
    return _policy(styles(), figure_scripts(), _place_of(plotly))


def _place_of(plotly: PlotlyFrom) -> str:
    """Where a page may have plotly.js from: this server has no other script."""
    link = linked(plotly)
    if link is None:
        return ""
    return "'self'" if plotly == "file" else link.src


@cache
def of_the_rest() -> str:
    return _policy([style()], [])
