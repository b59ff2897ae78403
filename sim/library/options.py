"""What somebody asks of all tests at once, from a command line: pytest's options of squall's.

Imports nothing of squall's, so that the plugin is there in any run of pytest at no cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Options:
    """``None``: as each test says.

    ``seeds``: how many of them; ``engine``: which; ``replay``: a seed, or the file of a scenario,
    instead of a campaign. ``on_run(done, of)`` is told how far the running test is, and
    ``on_end(text)`` what it has done.
    """

    seeds: int | None = None
    engine: str | None = None
    replay: str | None = None
    on_run: Callable[[int, int], object] = lambda done, of: None
    on_end: Callable[[str], object] = lambda text: None


OPTIONS = Options()
