"""What the processes of a script give back to whoever started the run, on either engine.

give_back(b"...")                   in a process
run.returned                        afterwards: by rank, the last that each gave
"""

from __future__ import annotations

from collections.abc import Callable

#: who has it: the simulator's own, and in a process of the engine ``torch`` another one
_receivers: list[Callable[[bytes], object]] = []


def give_back(value: bytes) -> None:
    """Keep ``value`` for whoever started the run. Raises RuntimeError outside every process."""
    if not _receivers:
        raise RuntimeError("this code runs outside every simulated process")
    _receivers[-1](value)


def give_to(receive: Callable[[bytes], object]) -> None:
    """From now on let ``receive`` have what is given back."""
    _receivers.append(receive)
