"""One figure in a page that opens without a network, under the policy of ``squall serve`` too."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from squall.sim.names import PlotlyFrom
from squall.sim.pictures import page_payload
from squall.sim.pictures.page import MAP_STYLES, TEMPLATES, own_script, styles
from squall.sim.pictures.plotly_js import linked


def figure_scripts() -> tuple[str, ...]:
    """The text of each script in such a page."""
    return (get_plotlyjs(), *map(own_script, ("packed.js", "colors.js", "labels.js", "figure.js")))


def figure_page(
    figure: go.Figure,
    title: str,
    back: str = "",
    *,
    text: str = "",
    plotly: PlotlyFrom = "inline",
) -> str:
    """The page as HTML. ``back``: what a link at its top leads to, if there is one; ``text``: lines below the title;
    ``plotly``: as of :func:`squall.sim.pictures.page.page`."""
    link = linked(plotly)
    return TEMPLATES.get_template("figure.html").render(
        title=title,
        back=back,
        text=text,
        figure=page_payload.packed(figure.to_json()),
        style=styles()[0],
        linked=link,
        scripts=figure_scripts() if link is None else figure_scripts()[1:],
        never_styled=MAP_STYLES.findall(get_plotlyjs()),
    )
