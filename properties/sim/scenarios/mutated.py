"""Scenario files with something changed at random, as people and programs damage them.

    .venv/bin/python -m squall.properties.sim.scenarios.mutated 20000

tells how many loaded and how many were refused, and raises what else came of one.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from squall.model.program.check import ProgramError
from squall.properties.sim.cli.test_bad_input import full_plan, full_scenario
from squall.sim.faults.file import PlanError
from squall.sim.scenarios.file import ScenarioError, dump_scenario, load_scenario
from squall.sim.search.draw import Settings, draw

#: the errors that tell what is wrong with a file
REFUSALS = (ScenarioError, ProgramError, PlanError)
#: JSON text that most fields do not take
TEXTS = (
    "null", "true", "false", "0", "-0", "-0.0", "-1", "1", "0.5", "1e308", "1e999", "-1e999",
    "1e-400", "NaN", "Infinity", "-Infinity", "9" * 400, "-" + "9" * 400, "1" * 4_000, "1" * 6_000,
    "1" + "0" * 308 + ".0", "9223372036854775808", "18446744073709551616", '""', '"no such"',
    r'"\ud800"', r'"\u0000"', r'"\n"', '"é"', "[]", "{}", "[[]]", "[0]", "[" * 90 + "]" * 90,
    "[" * 100_000, '{"a": 1, "a": 2}', r'{"\ud800": 1}', '{"kind": "drop"}', "01", "1.", "'x'", "",
)  # fmt: skip
_MARK = "\x01a place\x01"


def originals() -> list[str]:
    """The files that are changed: all fields written out, and some that seeds draw."""
    whole = full_scenario()
    whole["world"]["faults"] = full_plan()
    drawn = [draw(seed, Settings(profile)) for seed in range(6) for profile in (None, "storm")]
    return [json.dumps(whole), *(dump_scenario(scenario) for scenario in drawn)]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a value with every key of it."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _replaced(data: Any, stream: random.Random) -> str:
    inside, key = stream.choice(list(_places(data)))
    inside[key] = _MARK
    return json.dumps(data).replace(json.dumps(_MARK), stream.choice(TEXTS))


def _removed(data: Any, stream: random.Random) -> str:
    inside, key = stream.choice(list(_places(data)))
    del inside[key]
    return json.dumps(data)


def _moved(data: Any, stream: random.Random) -> str:
    """A value that belongs elsewhere."""
    places = list(_places(data))
    (inside, key), (other, there) = stream.choice(places), stream.choice(places)
    inside[key] = json.loads(json.dumps(other[there]))
    return json.dumps(data)


def _renamed(data: Any, stream: random.Random) -> str:
    objects = [(inside, key) for inside, key in _places(data) if isinstance(inside, dict)]
    inside, key = stream.choice(objects)
    inside[stream.choice(("", "no such", "a\nb", "\ud800", stream.choice(objects)[1]))] = (
        inside.pop(key)
    )
    return json.dumps(data)


def _damaged(data: Any, stream: random.Random) -> str:
    """Text that is cut off, lacks a piece, has one twice or has another character somewhere."""
    text = json.dumps(data)
    at, length = stream.randrange(len(text)), stream.randint(1, 30)
    piece = stream.choice(("", text[at : at + length] * 2, chr(stream.randrange(1, 0x250)), None))
    return text[:at] if piece is None else text[:at] + piece + text[at + length :]


CHANGES: tuple[Callable[[Any, random.Random], str], ...] = (
    _replaced, _replaced, _replaced, _removed, _moved, _renamed, _damaged,
)  # fmt: skip


def mutated(count: int, seed: int = 0) -> Iterator[str]:
    """So many changed files; the same for the same seed."""
    texts = originals()
    for number in range(count):
        stream = random.Random(f"{seed}/{number}")
        yield stream.choice(CHANGES)(json.loads(stream.choice(texts)), stream)


def outcome(text: str) -> str:
    """What becomes of a file: "loaded", which it does again once written, or "refused"."""
    try:
        scenario = load_scenario(text)
    except REFUSALS as error:
        said = str(error)
        said.encode()
        assert said.partition(":")[0], "names the place"
        assert "\n" not in said, "one line"
        assert len(said) < 2_000, "no file is quoted whole"
        return "refused"
    assert load_scenario(dump_scenario(scenario)) == scenario
    return "loaded"


if __name__ == "__main__":
    counts: Counter[str] = Counter()
    for text in mutated(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0):
        try:
            counts[outcome(text)] += 1
        except Exception:
            print(text[:3_000])
            raise
    print(dict(counts))
