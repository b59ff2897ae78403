"""What a command says before it has anything to tell: on a terminal a line that goes with its first word, elsewhere
one that stays, unless SQUALL_PROGRESS is "never".

Imports of PyTorch take seconds. A thread looks whether the main one is in one.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any, TextIO

#: seconds until the first look, and between two; and until there is a line that stays
_AFTER_S, _EACH_S, _STAYS_S = 0.2, 0.1, 1.0
#: the environment's word about lines of progress where there is no terminal, and what it may be
PROGRESS, NEVER = "SQUALL_PROGRESS", "never"
_IMPORTS = "<frozen importlib._bootstrap>"
_ERASE = "\r\x1b[2K"
#: what people call the packages that take long
_CALLED = {"torch": "PyTorch"}


#: that of this process, until somebody has something to say
STARTING: list[Starting] = []


class Starting:
    """Standard error, with a line on it that says what ``command`` does until somebody else writes there."""

    def __init__(self, stream: TextIO, command: str) -> None:
        self._command = command
        self._stream = stream
        self._stays = not stream.isatty()
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._shown = ""
        self._main = threading.get_ident()

    def begin(self) -> None:
        STARTING.append(self)
        threading.Thread(target=self._look, name="starting", daemon=True).start()

    def _look(self) -> None:
        wait_s = _STAYS_S if self._stays else _AFTER_S
        while not self._is_over.wait(wait_s):
            # A line that stays names no import: by the time that it is read another one is under way.
            wait_s = _STAYS_S if self._stays else _EACH_S
            package = "" if self._stays else imported(sys._current_frames().get(self._main))
            with self._lock:
                if not self._is_over.is_set():
                    self._show(f"importing {package}" if package else "at work")

    def _show(self, text: str) -> None:
        if text == self._shown:
            return
        if self._stays:
            self._stream.write(f"{self._command}: {text} ...\n" if text else "")
        else:
            self._stream.write(f"{_ERASE}{self._command}: {text} ..." if text else _ERASE)
        self._shown = text
        self._stream.flush()

    def end(self) -> None:
        """Somebody has something to say."""
        with self._lock:
            if not self._is_over.is_set():
                self._show("")
                self._is_over.set()

    def write(self, text: str) -> int:
        self.end()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def imported(frame: FrameType | None) -> str:
    """The package whose import a stack is in, the outermost one; "" if it is in none."""
    found = ""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTS and frame.f_code.co_name == "_find_and_load":
            name = str(frame.f_locals.get("name", ""))
            if not name.startswith("squall"):
                found = name.partition(".")[0]
        frame = frame.f_back
    return _CALLED.get(found, found)
