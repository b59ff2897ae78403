"""What a script finds in replaced modules, beside what stock Python and PyTorch have there.

``api_walk.py`` lists what is public in both; the differences that are meant stand in
``api_differences.toml`` with their reasons. ``python -m squall.properties.sim.scripts.api >
docs/api.md`` writes the page about them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WALK = HERE / "api_walk.py"
#: in what a function or class may differ that is there
_SAID = ("parameters", "documentation", "name")
_KINDS = ("missing", "extra", "kind", *_SAID)
_PAGE = """\
# What scripts find in replaced modules

Made by `make api` from `properties/sim/scripts/api_differences.toml`, which the suite holds against what is there.

A script on the engine `port` gets modules of squall's in place of some of the standard library's and PyTorch's
([scripts.md](scripts.md)). There `dir()`, `inspect.signature`, `__doc__` and `__name__` tell of what is public,
and of the public members of classes, what they tell in stock Python and PyTorch. `__module__` tells where squall
defines it. Names that begin with an underscore are not compared, nor are members of exceptions, nor parameters
where stock has a compiled function that tells none.

The modules: MODULES.

These differ:

| what | names | why |
|---|---|---|
"""
_WORDS = {
    "missing": "not there",
    "extra": "there, and not in stock",
    "kind": "function or class",
    "parameters": "parameters",
    "documentation": "`__doc__`",
    "name": "`__name__`",
}

#: by module and name
Found = dict[str, dict[str, dict[str, Any]] | None]


@dataclass(frozen=True)
class Difference:
    """Names that may differ in one way, and why. ``everywhere``: under each supported version."""

    what: str
    names: tuple[str, ...]
    why: str
    everywhere: bool = True

    def __post_init__(self) -> None:
        assert self.what in _KINDS, self.what


def allowed() -> list[Difference]:
    with (HERE / "api_differences.toml").open("rb") as file:
        listed = tomllib.load(file)["difference"]
    return [Difference(**{**each, "names": tuple(each["names"])}) for each in listed]


def module_names() -> list[str]:
    from squall.sim.scripts.compat.torch_facade import SUBSTITUTES

    return sorted(SUBSTITUTES)


def differences(stock: Found, ours: Found) -> Iterator[tuple[str, str]]:
    """Each as what differs and "module:name"."""
    for module, here in stock.items():
        there = ours[module]
        if here is None or there is None:
            if here is not there:
                yield ("missing" if there is None else "extra"), module
            continue
        apart = {
            name for name in here if name in there and here[name]["kind"] != there[name]["kind"]
        }
        for name in sorted({*here, *there}):
            if name.partition(".")[0] in apart and name not in apart:
                continue
            for what in _between(here.get(name), there.get(name)):
                yield what, f"{module}:{name}"


def _between(stock: dict[str, Any] | None, ours: dict[str, Any] | None) -> Iterator[str]:
    if stock is None or ours is None:
        yield "missing" if ours is None else "extra"
    elif stock["kind"] != ours["kind"]:
        yield "kind"
    else:
        for said in _SAID:
            told = stock.get(said)
            if told != ours.get(said) and not (said == "parameters" and told is None):
                yield said


def judge(found: list[tuple[str, str]], listed: list[Difference]) -> list[str]:
    """What is not listed, and what is listed and is not so."""
    wrong = [
        f"{what} {name}"
        for what, name in found
        if not any(
            each.what == what and any(fnmatchcase(name, pattern) for pattern in each.names)
            for each in listed
        )
    ]
    for each in listed:
        wrong += [
            f"nothing is {each.what} {pattern}"
            for pattern in each.names
            if each.everywhere
            and not any(what == each.what and fnmatchcase(name, pattern) for what, name in found)
        ]
    return wrong


def page() -> str:
    """The page in Markdown."""
    modules = ", ".join(f"`{name}`" for name in module_names())
    rows = [
        f"| {_WORDS[each.what]} | {', '.join(f'`{name}`' for name in each.names)} | {each.why} |"
        for each in allowed()
    ]
    return _PAGE.replace("MODULES", modules) + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(page(), end="")
