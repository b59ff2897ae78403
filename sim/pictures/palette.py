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

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


class Kind(NamedTuple):
    """A kind of message: what it is called, and how it is drawn."""

    name: str
    color: str
    dash: str
    symbol: str


CALL = Kind("call", BLUE, "solid", "triangle-right")
GRADIENT = Kind("gradient", VERMILION, "solid", "triangle-right")
RREF = Kind("RRef control", GREEN, "dash", "triangle-right")
CLEANUP = Kind("clean-up", PURPLE, "dot", "triangle-right")
GROUP = Kind("process group", ORANGE, "solid", "triangle-right")
ERROR = Kind("error", BLACK, "dashdot", "triangle-right")
KINDS: Final = (CALL, GRADIENT, RREF, CLEANUP, GROUP, ERROR)

_BY_PREFIX: Final[tuple[tuple[str, Kind], ...]] = (
    ("BACKWARD_AUTOGRAD", GRADIENT),
    ("RREF_BACKWARD", GRADIENT),
    ("RREF_", RREF),
    ("CLEANUP_", CLEANUP),
    ("COLLECTIVE", GROUP),
    ("SEND", GROUP),
    ("NOTICE", GROUP),
    ("EXCEPTION", ERROR),
)


def kind_of(message_type: str) -> Kind:
    """The kind of a message, by the name of its type."""
    for prefix, kind in _BY_PREFIX:
        if message_type.startswith(prefix):
            return kind
    return CALL


def message_name(message_type: str) -> str:
    """A type in few words: ``BACKWARD_AUTOGRAD_REQ`` is ``backward autograd req``."""
    return message_type.lower().replace("_", " ")


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
