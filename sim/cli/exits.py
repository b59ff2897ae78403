"""Exit codes of the command; 0 means that all is well."""

from __future__ import annotations

#: the run found a failure
FAILED = 1
#: what the user gave is wrong
BAD_INPUT = 2
#: a defect of squall itself
DEFECT = 3
#: nothing was found, since there was nothing to find it in
UNCHECKED = 4
INTERRUPTED = 130
#: whoever read standard output has left, as a shell has it of a process that SIGPIPE ends
NOT_READ = 141


def exit_code(*, good: bool, unchecked: str | None = None, allowed: bool = False) -> int:
    """Of a run that has come to its end. ``unchecked``: why nothing was checked in it, if so;
    ``allowed``: whether that is accepted."""
    if unchecked is not None and not allowed and good:
        return UNCHECKED
    return 0 if good else FAILED
