"""What the processes of a script give back to whoever started the run, on either engine.

give_back(b"...")                   in a process
run.processes.returned              afterwards: by rank, the last that each gave
"""

from __future__ import annotations

from collections.abc import Callable

#: who has it, the first of them: the simulator, or in a process of the engine ``torch`` its coordinator,
#: even where code that such a process imports brings the simulator along
_receivers: list[Callable[[bytes], object]] = []


def give_back(value: bytes) -> None:
    """Keep ``value`` for whoever started the run. Raises RuntimeError outside every process."""
    if not _receivers:
        raise RuntimeError("this code runs outside every simulated process")
    _receivers[0](value)


def give_to(receive: Callable[[bytes], object], *, first: bool = False) -> None:
    """Let ``receive`` have what is given back, unless somebody has it already; ``first``: even
    then."""
    _receivers.insert(0 if first else len(_receivers), receive)
