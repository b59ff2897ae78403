"""Progress on standard error."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TextColumn

#: real seconds between two refreshes
_REFRESH_S = 0.25


class Bar(Progress):
    """Is shown on a terminal alone, and gone in the end; lines above it are written always.

    ``columns``: rich's, or formats such as ``"{task.completed:,} runs"``; ``total`` (None: nobody knows) and
    ``fields`` are those of its first task, ``description`` what that is called. ``ticks``: it is drawn anew also while nobody says anything.
    """

    def __init__(
        self,
        *columns: str | ProgressColumn,
        total: float | None = None,
        ticks: bool = False,
        description: str = "",
        **fields: Any,
    ) -> None:
        # While a scenario runs, sys.stderr is another one.
        console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        super().__init__(
            *(TextColumn(each) if isinstance(each, str) else each for each in columns),
            console=console,
            auto_refresh=ticks,
            transient=True,
            disable=not console.is_terminal,
        )
        self._first = self.add_task(description, total=total, **fields)
        self._shown = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it was not drawn for a while."""
        return time.monotonic() - self._shown >= _REFRESH_S

    def say(self, **fields: Any) -> None:
        """What is to be seen from now on."""
        self._shown = time.monotonic()
        self.update(self._first, **fields)
        self.refresh()

    def warn(self, text: str) -> None:
        """A line above it."""
        self.console.print(text, style="yellow", markup=False)
