"""Which files are squall's own, to tell its frames and modules from a user's."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

#: the folder of the package ``squall``, as the interpreter names it: links are not followed
PACKAGE = Path(__file__).parents[1]
#: what the paths of its files begin with; no test is squall's own
OWN_FILES = (
    *(str(PACKAGE / name) + os.sep for name in ("real", "sim", "model")),
    str(PACKAGE / "__main__.py"),
)


def is_own(file: str) -> bool:
    """Whether it is squall's, or the script that it has written to call a function: ``.../test_file:test_name``."""
    name = os.path.basename(file)
    return file.startswith(OWN_FILES) or (":" in name and name[0] != "<" and name[-3:] != ".py")


def described(error: BaseException) -> traceback.TracebackException:
    """``error`` for printing, with those that caused it, all without frames of squall's own."""
    whole = traceback.TracebackException.from_exception(error)
    _strip(whole, set())
    return whole


def _strip(error: traceback.TracebackException, seen: set[int]) -> None:
    if id(error) in seen:
        return
    seen.add(id(error))
    kept = [frame for frame in error.stack if not is_own(frame.filename)]
    error.stack = traceback.StackSummary.from_list(kept)
    for other in (error.__cause__, error.__context__):
        if other is not None:
            _strip(other, seen)
    for other in getattr(error, "exceptions", None) or ():
        _strip(other, seen)
