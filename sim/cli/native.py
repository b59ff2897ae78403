"""The engine ``torch`` on a command line: whether it can be had, and what is said of its build."""

from __future__ import annotations

from typing import TextIO

from squall.sim.cli.input import BadInput


def ready_native(progress: TextIO) -> None:
    """See that the agent is built, which takes a while the first time and is told then.

    Raises :class:`BadInput` where it cannot be built, which says what to install.
    """
    from squall.real.native.build import Unavailable, library

    def told(text: str) -> None:
        print(f"squall: {text}", file=progress, flush=True)

    try:
        library(told)
    except Unavailable as error:
        raise BadInput("--engine", "torch", str(error)) from None
