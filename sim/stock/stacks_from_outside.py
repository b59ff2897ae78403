"""Where the threads of a worker process are, also while one of them computes and answers nobody.

The process writes them down, in C, when it gets a signal, into a file in memory that the coordinator
can open.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sysconfig
import time

from squall.real.own_files import OWN_FILES

#: the number of that file, far from those that a script opens
_FILE = 500
_SIGNAL = signal.SIGUSR2
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_NOT_USERS = (*OWN_FILES, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))
#: seconds to wait for it
_PATIENCE_S = 5.0


def offer() -> None:
    """In the worker process."""
    written = os.memfd_create("stacks")
    os.dup2(written, _FILE)
    os.close(written)
    faulthandler.register(_SIGNAL, file=_FILE, all_threads=True)


def stack_from_outside(pid: int) -> str:
    """As a traceback has it: the stack of the thread that is in code of the user's; "" if none is."""
    os.kill(pid, _SIGNAL)
    text, until_s = "", time.monotonic() + _PATIENCE_S
    while not text and time.monotonic() < until_s:
        time.sleep(0.1)  # it is written at once, by a process that has a processor
        with open(f"/proc/{pid}/fd/{_FILE}", "rb") as file:
            text = file.read().decode("utf-8", "replace")
    found = [_FRAME.findall(thread) for thread in text.split("\n\n")]
    # Who waits is in a library's code, as a rule; who computes, in the user's.
    found.sort(key=lambda frames: not frames or frames[0][0].startswith(_NOT_USERS))
    frames = [each for each in found[0] if not each[0].startswith(OWN_FILES)]
    lines = [f'  File "{path}", line {line}, in {name}\n' for path, line, name in reversed(frames)]
    return "Traceback (most recent call last):\n" + "".join(lines)
