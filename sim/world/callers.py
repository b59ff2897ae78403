"""Who asked a device for a kernel."""

from __future__ import annotations

import sys

#: parts of the paths of files that only hand on what others ask for
_OURS = ("/sim/world/stand_in/", "/sim/world/kernel_watch.py", "/torch/", "/weakref.py")


def caller() -> str:
    """File and line of the code that asked for a kernel: the first that is not torch's."""
    frame = sys._getframe(2)
    found = frame
    while frame is not None:
        path = frame.f_code.co_filename
        if not any(part in path for part in _OURS) and not path.startswith("<"):
            found = frame
            break
        if frame.f_back is None:
            break
        frame = frame.f_back
    path = "/".join(found.f_code.co_filename.split("/")[-3:])
    return f"{path}:{found.f_lineno} {found.f_code.co_name}"
