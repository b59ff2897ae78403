"""What operators and modules take, in seconds of virtual time: ``20us``, ``linear=1ms,Net=5ms,20us``.

A name is that of an operator as Python calls it (``linear``, ``add``, ``backward``; what is done in place
has the same name) or of the class of a module; a duration alone is that of every other operator. Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from squall.sim.world.latency import parse_duration_s

#: stands for every operator that has no duration of its own
EVERY = ""
#: in the place of durations: what they are on this machine
MEASURED = "measured"
_FORM = "NAME=DURATION or a DURATION for every operator, with a comma between them, such as linear=1ms,20us"


def parse_compute(text: str) -> dict[str, float]:
    """Seconds by name. Raises ValueError with a message of one line."""
    found: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, duration = part.rpartition("=")
        name = name.strip()
        if equals and not name.isidentifier():
            raise ValueError(f"{name!r} is no name of an operator or a module, expected {_FORM}")
        if name in found:
            raise ValueError(f"{name or 'every operator'} has two durations, expected one")
        try:
            found[name] = parse_duration_s(duration)
        except ValueError as error:
            raise ValueError(f"{error}; expected {_FORM}") from None
    return found


def read_compute(path: Path) -> str:
    """What a JSON file says, for :func:`parse_compute`: an object of durations by name, in seconds or with a unit; that
    of every other operator has the name "". Raises ValueError with a message of one line."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{str(path)!r} holds no object of names and durations")
    return ",".join(f"{name}={each}" if name else f"{each}" for name, each in found.items())


def compute_text(seconds: Mapping[str, float]) -> str:
    """What :func:`parse_compute` reads as the same."""
    parts = [f"{name}={value:g}" for name, value in sorted(seconds.items()) if name != EVERY]
    if EVERY in seconds:
        parts.append(f"{seconds[EVERY]:g}")
    return ",".join(parts)


def mean_seconds(computed: Mapping[str, tuple[int, float]]) -> dict[str, float]:
    """What each operator takes, of how often it ran and how long in all; two digits of it."""
    return {name: float(f"{total / times:.1e}") for name, (times, total) in computed.items()}


def hint_for_names(durations: str, computed: Mapping[str, object]) -> str | None:
    """What to know of names that stand for nothing that ran."""
    names = sorted(parse_compute(durations).keys() - computed.keys() - {EVERY})
    if not names:
        return None
    known = ", ".join(sorted(computed)) or "none"
    return f"nothing ran that is called {', '.join(names)}, of which --compute speaks; there ran {known}"
