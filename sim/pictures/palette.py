"""Colours, marks and names: one meaning, one colour, in every picture.

The palette is Okabe and Ito's, whose eight colours stay apart for every common kind of colour
blindness. What a colour says is said a second time by a dash or a symbol, so that print keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple

BLACK: Final = "#000000"
ORANGE: Final = "#E69F00"
SKY: Final = "#56B4E9"
GREEN: Final = "#009E73"
YELLOW: Final = "#F0E442"
BLUE: Final = "#0072B2"
VERMILION: Final = "#D55E00"
PURPLE: Final = "#CC79A7"

INK: Final = "#1f2430"
MUTED: Final = "#6b7280"
GRID: Final = "#e6e8ec"
BAND: Final = "#f6f7f9"
PALE: Final = "#c9cdd4"
PAPER: Final = "#ffffff"

#: fills that are pale on a light page and deep on a dark one
PALE_SKY: Final = "#d4ecf9"
PALE_ORANGE: Final = "#fbe7c6"
PALE_YELLOW: Final = "#fbf6c0"
PALE_PURPLE: Final = "#f3e3ec"
PALE_RED: Final = "#f7d9c8"
PALE_GREY: Final = "#eff0f3"
DULL: Final = "#e2e4e9"
OLIVE: Final = "#a89b00"
#: text on other fills, and marks that are white on each page
DARK_TEXT: Final = "#14171d"
WHITE: Final = "#fefefe"

#: what a dark page has instead of a colour; every other one stays
DARK: Final[Mapping[str, str]] = {
    INK: "#e6e8ec",
    MUTED: "#a2a9b5",
    GRID: "#2a2f38",
    BAND: "#1d2128",
    PALE: "#555d6b",
    PAPER: "#15181d",
    BLACK: "#ffffff",
    "rgba(0,0,0,": "rgba(255,255,255,",
    PALE_SKY: "#17384a",
    PALE_ORANGE: "#4a3a17",
    PALE_YELLOW: "#45411a",
    PALE_PURPLE: "#44303c",
    PALE_RED: "#4d2f1e",
    PALE_GREY: "#2b303a",
    DULL: "#3a404b",
}

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


class MessageStyle(NamedTuple):
    """A kind of message: what it is called, and how it is drawn."""

    name: str
    color: str
    dash: str
    symbol: str


CALL = MessageStyle("call", BLUE, "solid", "triangle-right")
GRADIENT = MessageStyle("gradient", VERMILION, "solid", "triangle-right")
RREF = MessageStyle("RRef control", GREEN, "dash", "triangle-right")
CLEANUP = MessageStyle("clean-up", PURPLE, "dot", "triangle-right")
GROUP = MessageStyle("process group", ORANGE, "solid", "triangle-right")
ERROR = MessageStyle("error", BLACK, "dashdot", "triangle-right")
KINDS: Final = (CALL, GRADIENT, RREF, CLEANUP, GROUP, ERROR)
#: what no line of a program asks for by itself: it is seen when somebody asks for it
BY_ITSELF: Final = (RREF, CLEANUP)

_BY_PREFIX: Final[tuple[tuple[str, MessageStyle], ...]] = (
    ("BACKWARD_AUTOGRAD", GRADIENT),
    ("RREF_BACKWARD", GRADIENT),
    ("RREF_", RREF),
    ("CLEANUP_", CLEANUP),
    ("COLLECTIVE", GROUP),
    ("SEND", GROUP),
    ("NOTICE", GROUP),
    ("EXCEPTION", ERROR),
)


def kind_of(message_type: str) -> MessageStyle:
    """The kind of a message, by the name of its type."""
    for prefix, kind in _BY_PREFIX:
        if message_type.startswith(prefix):
            return kind
    return CALL


def contrast(one: str, other: str) -> float:
    """How well a colour can be told from another one, from 1 to 21 (the formula of WCAG 2)."""

    def light(color: str) -> float:
        parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    darker, lighter = sorted((light(one), light(other)))
    return (lighter + 0.05) / (darker + 0.05)


def text_on(fill: str) -> str:
    """The colour of text on a fill, on a light page and on a dark one."""
    texts = (INK, PAPER) if fill in DARK else (WHITE, DARK_TEXT)
    return max(texts, key=lambda text: contrast(text, fill))


_AXIS: Final[dict[str, Any]] = {
    "gridcolor": GRID,
    "linecolor": PALE,
    "zeroline": False,
    "ticks": "outside",
    "tickcolor": PALE,
    "ticklen": 4,
    "automargin": True,
    "title": {"font": {"size": 12, "color": MUTED}, "standoff": 8},
    "tickfont": {"size": 11.5},
}

LAYOUT: Final[Mapping[str, Any]] = {
    "font": {"family": FONT, "size": 12.5, "color": INK},
    "paper_bgcolor": PAPER,
    "plot_bgcolor": PAPER,
    "margin": {"l": 12, "r": 20, "t": 64, "b": 44},
    "hovermode": "closest",
    "hoverdistance": 12,
    "hoverlabel": {
        "bgcolor": PAPER,
        "bordercolor": PALE,
        "font": {"family": FONT, "size": 12, "color": INK},
        "align": "left",
    },
    "legend": {
        "orientation": "h",
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "font": {"size": 12},
        "itemsizing": "constant",
        "tracegroupgap": 6,
    },
    "xaxis": deepcopy(_AXIS),
    "yaxis": {**deepcopy(_AXIS), "showgrid": False},
    "dragmode": "pan",
    "modebar": {"color": PALE, "activecolor": INK, "bgcolor": "rgba(0,0,0,0)"},
}
