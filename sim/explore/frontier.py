"""An exploration that is not over, as a file: what it has come to, and the choices still to make.

write_frontier(path, scenario, how, explored)
explored = read_frontier(path, scenario, how)        # to be given to explore() as ``since``
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from squall.model.events.run import Violation
from squall.sim.explore.execution import How
from squall.sim.explore.tree import Explored, Found, Frame, Outer, Subtree
from squall.sim.scenario import Scenario
from squall.sim.scenarios.file import name_of
from squall.sim.scenarios.store import write_synced
from squall.sim.world.choosing import Footprint

_VERSION = 3
_NUMBERS = ("complete", "pruned", "failed", "longest", "seconds", "crowded")


class FrontierError(ValueError):
    """A file holds no exploration that can go on here: the text says why."""


def write_frontier(path: Path, scenario: Scenario, how: How, explored: Explored) -> None:
    """Write down an exploration of ``scenario``. Raises OSError."""
    told = {
        "version": _VERSION,
        "scenario": name_of(scenario),
        "how": [how.grain, how.ordered, how.dependence],
        "explored": _explored(explored),
    }
    write_synced(path, json.dumps(told) + "\n")


def read_frontier(path: Path, scenario: Scenario, how: How) -> Explored:
    """What :func:`write_frontier` has written. Raises OSError, and FrontierError if it was of another
    scenario or explored otherwise, or is no such file."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["version"] != _VERSION:
            raise FrontierError(f"it is of version {told['version']}, expected {_VERSION}")
        if told["scenario"] != name_of(scenario):
            raise FrontierError("it is an exploration of another scenario")
        if told["how"] != [how.grain, how.ordered, how.dependence]:
            raise FrontierError(
                f"it is an exploration with --grain {told['how'][0]}, or ordered otherwise"
            )
        return _read_explored(told["explored"])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, FrontierError):
            raise
        raise FrontierError(f"it holds no exploration: {error!r}") from None


def _explored(explored: Explored) -> dict[str, Any]:
    return {
        "numbers": {name: getattr(explored, name) for name in _NUMBERS},
        "classes": sorted(explored.classes),
        "states": [[state, n, explored.choices_of[state]] for state, n in explored.states.items()],
        "found": [
            [found.violation.to_json(), found.choices, found.executions]
            for found in explored.found.values()
        ],
        "situations": sorted(explored.situations),
        "sent": [[*link, times] for link, times in explored.sent.items()],
        "frames": [_frame(frame) for frame in explored.frontier],
    }


def _read_explored(told: dict[str, Any]) -> Explored:
    explored = Explored(**{name: told["numbers"][name] for name in _NUMBERS})
    explored.classes = set(told["classes"])
    for state, executions, choices in told["states"]:
        explored.states[state] = executions
        explored.choices_of[state] = tuple(choices)
    for said, choices, executions in told["found"]:
        violation = Violation(**{**said, "events": tuple(said["events"])})
        key = violation.property, violation.what
        explored.found[key] = Found(violation, tuple(choices), executions)
    explored.situations = set(told["situations"])
    explored.sent = {(type, src, dst): times for type, src, dst, times in told["sent"]}
    explored.frontier = [_read_frame(frame) for frame in told["frames"]]
    return explored


def _frame(frame: Frame) -> dict[str, Any]:
    return {
        "enabled": sorted(frame.enabled),
        "asleep": [[name, _footprint(touched)] for name, touched in frame.asleep.items()],
        "to_try": list(frame.to_try),
        "tried": frame.tried,
        "chosen": frame.chosen,
        "footprint": _footprint(frame.footprint),
        "ahead": [[name, _subtree(subtree)] for name, subtree in frame.ahead.items()],
    }


def _read_frame(told: dict[str, Any]) -> Frame:
    asleep = {name: _read_footprint(touched) for name, touched in told["asleep"]}
    frame = Frame(frozenset(told["enabled"]), asleep)
    frame.to_try = dict.fromkeys(told["to_try"])
    frame.tried, frame.chosen = told["tried"], told["chosen"]
    frame.footprint = _read_footprint(told["footprint"])
    frame.ahead = {name: _read_subtree(subtree) for name, subtree in told["ahead"]}
    return frame


def _subtree(subtree: Subtree) -> dict[str, Any]:
    return {
        "way": [[_frame(outer), list(outer.needed)] for outer in subtree.way],
        "explored": _explored(subtree.explored),
        "exhausted": subtree.exhausted,
    }


def _read_subtree(told: dict[str, Any]) -> Subtree:
    way = []
    for frame, needed in told["way"]:
        read = _read_frame(frame)
        outer = Outer(read)
        outer.asleep, outer.footprint = read.asleep, read.footprint
        outer.needed = dict.fromkeys(map(tuple, needed))
        way.append(outer)
    explored = _read_explored(told["explored"])
    explored.exhausted = told["exhausted"]
    return Subtree(way, explored)


def _footprint(footprint: Footprint) -> list[list[Any]]:
    return [[what, how] for what, how in footprint.items()]


def _read_footprint(told: Iterable[list[Any]]) -> Footprint:
    # What is touched is a word, or a tuple of words and numbers.
    return {tuple(what) if isinstance(what, list) else what: how for what, how in told}
