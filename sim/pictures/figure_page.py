"""One figure in a page that opens without a network, under the policy of ``squall serve`` too."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from squall.sim.pictures import packed
from squall.sim.pictures.page import MAP_STYLES, TEMPLATES, styles


def figure_scripts() -> tuple[str, ...]:
    """The text of each script in such a page."""
    return (get_plotlyjs(), TEMPLATES.get_template("figure.js").render())


def figure_page(figure: go.Figure, title: str, back: str = "") -> str:
    """The page as HTML. ``back``: what a link at its top leads to, if there is one."""
    return TEMPLATES.get_template("figure.html").render(
        title=title,
        back=back,
        figure=packed.packed(figure.to_json()),
        style=styles()[0],
        scripts=figure_scripts(),
        never_styled=MAP_STYLES.findall(get_plotlyjs()),
    )
