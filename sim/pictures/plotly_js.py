"""Where a page gets plotly.js from: out of the page itself, from plotly's servers, or a file beside it."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import NamedTuple

from plotly.offline import get_plotlyjs, get_plotlyjs_version

from squall.sim.names import PLOTLY_FROM


class Linked(NamedTuple):
    """A script that a page asks for. ``integrity``: the digest that it must have, "" for any."""

    src: str
    integrity: str


def plotly_file() -> str:
    """The name of the file beside a page: with its version, since pages of several may lie there."""
    return f"plotly-{get_plotlyjs_version()}.min.js"


def linked(plotly: str) -> Linked | None:
    """What a page asks for, None for nothing. Raises ValueError for an unknown ``plotly``."""
    if plotly not in PLOTLY_FROM:
        raise ValueError(f"plotly: {plotly!r} is unknown, expected one of {', '.join(PLOTLY_FROM)}")
    if plotly == "inline":
        return None
    if plotly == "file":
        # Browsers compare no digests of what they open from disk.
        return Linked(plotly_file(), "")
    digest = base64.b64encode(hashlib.sha256(get_plotlyjs().encode()).digest()).decode("ascii")
    return Linked(f"https://cdn.plot.ly/{plotly_file()}", f"sha256-{digest}")


def write_plotly(folder: Path) -> Path:
    """Put plotly.js into ``folder``, unless it is there. Raises OSError."""
    path = folder / plotly_file()
    content = get_plotlyjs().encode()
    if not path.is_file() or path.read_bytes() != content:
        path.write_bytes(content)
    return path
