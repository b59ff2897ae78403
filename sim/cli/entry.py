"""Where the command ``squall`` begins: an interrupt ends it quietly even before it can do anything."""

from __future__ import annotations

import atexit
import io
import json
import os
import signal
import sys
from types import FrameType

from squall.sim.cli import guardian
from squall.sim.cli.exits import INTERRUPTED
from squall.sim.cli.starting import NEVER, PROGRESS, Starting
from squall.sim.world import interrupts

_MESSAGE = "interrupted before there was a report"


def main() -> None:
    """As :func:`squall.sim.cli.main.main`, with nothing imported yet."""
    signal.signal(signal.SIGINT, _leave)
    if isinstance(sys.stdout, io.TextIOWrapper):  # what its encoding lacks is no reason to end
        sys.stdout.reconfigure(errors="backslashreplace")
    guardian.begin(_json_message() if "--json" in sys.argv else None)
    if sys.stderr is not None and (sys.stderr.isatty() or os.environ.get(PROGRESS) != NEVER):
        starting = Starting(sys.stderr, " ".join(["squall", *sys.argv[1:2]]))
        sys.stderr = starting
        starting.begin()
        atexit.register(starting.end)
    from squall.sim.cli.main import main as run

    with interrupts.heard():
        signal.signal(signal.SIGINT, _interrupt)
        run()


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """Ctrl-C. While torch is imported, before which nothing begins, an exception could come out of
    it as any other, or not at all."""
    torch = sys.modules.get("torch")
    if torch is not None and getattr(torch.__spec__, "_initializing", False):
        _leave(signum, frame)
    interrupts.interrupt(signum, frame)


def _leave(signum: int, frame: FrameType | None) -> None:
    """End at once: nothing has been found that could be lost."""
    if "--json" in sys.argv:
        os.write(1, f"{_json_message()}\n".encode())
    os._exit(INTERRUPTED)


def _json_message() -> str:
    return json.dumps({"outcome": "interrupted", "message": _MESSAGE})


if __name__ == "__main__":
    main()
