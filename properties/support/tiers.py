"""Which tests a run has: ``--tier quick``, what ``make test`` runs; ``deep``, the rest; or ``all``.

@pytest.mark.sampled(3)                  # of the cases of this test quick has three; which ones, the commit says
@pytest.mark.sampled(6, of="pages")      # of all cases of the tests that say "pages" it has six
@pytest.mark.deep("why")                 # quick has none of it

Of tests that are known to take long (``costs.json``) quick has so many as ``BUDGET_S`` allows, at least one of each folder,
and none that takes longer than ``LONGEST_S``.
A sample is drawn by the names of the cases and the commit: the same commit has the same sample on each
machine, and the cases of another one are tried the next day. So are the examples of Hypothesis, whose tests
stand in both tiers, with more examples in deep (``conftest.py``). ``--sample COMMIT`` draws those of another
commit. A test that is named (``pytest FILE::TEST``) runs with all its cases unless a tier is given.
"""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Literal

import pytest

from squall.properties.support.costs import folder_of, known, test_of
from squall.properties.support.paths import ROOT

Tier = Literal["quick", "deep", "all"]
TIERS: tuple[Tier, ...] = ("quick", "deep", "all")
#: where there is no commit, in a copy of the files for instance
NO_COMMIT = "none"
#: seconds of CPU that the tier quick has for tests which are known to take long
BUDGET_S = 200.0
#: and those of which a case takes longer are in the tier deep alone
LONGEST_S = 12.0
#: how many of them the tier quick has, which no marker can say
NOTEBOOKS = 2
MARKERS = (
    "sampled(cases, of=None): so many cases of the test, or of all tests that name the same, are in the "
    "tier quick, the others in deep",
    "deep(reason): the test is in the tier deep alone",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--tier", choices=TIERS, help="quick (default), deep (the rest) or all")
    group.addoption("--sample", metavar="COMMIT", help="draw the sample of another commit")


@pytest.hookimpl(tryfirst=True)  # before Hypothesis looks for its seed
def pytest_configure(config: pytest.Config) -> None:
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    if config.getoption("hypothesis_seed") is None:
        config.option.hypothesis_seed = str(zlib.crc32(_commit(config).encode()))


def pytest_report_header(config: pytest.Config) -> str:
    commit = _commit(config)
    return f"tier {config.getoption('tier') or 'quick'}, sample {commit} (--sample {commit} draws it anew)"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier: Tier | None = config.getoption("tier")
    if tier == "all":
        return
    quick = quick_tests(items, _commit(config))
    left = []
    for item in items:
        if tier is None and _named(item.nodeid, config.args):
            kept = True
        elif tier == "deep":
            kept = item.nodeid not in quick or _has_examples(item)
        else:
            kept = item.nodeid in quick
        if not kept:
            left.append(item)
    if left:
        gone = {item.nodeid for item in left}
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item.nodeid not in gone]


def quick_tests(items: Iterable[pytest.Item], commit: str) -> set[str]:
    """The names of those that are in the tier quick."""
    found = set()
    sampled: dict[str, tuple[int, list[str]]] = {}
    for item in items:
        if item.get_closest_marker("deep") is not None:
            continue
        marker = item.get_closest_marker("sampled")
        if marker is not None:
            count, kind = marker.args[0], marker.kwargs.get("of") or item.nodeid.partition("[")[0]
        elif item.path.suffix == ".ipynb":
            count, kind = NOTEBOOKS, "notebooks"
        else:
            found.add(item.nodeid)
            continue
        sampled.setdefault(kind, (count, []))[1].append(item.nodeid)
    for count, names in sampled.values():
        found.update(sample(names, count, commit))
    costs = known()
    dear = {name: costs[test_of(name)] for name in found if test_of(name) in costs}
    fitting = {name: cost for name, cost in dear.items() if cost <= LONGEST_S}
    return found - dear.keys() | {*affordable(fitting, BUDGET_S, commit)}


def sample(names: Iterable[str], count: int, commit: str) -> list[str]:
    """``count`` of the names, in an order that the commit says."""
    return sorted(names, key=lambda name: blake2b(f"{commit} {name}".encode()).digest())[:count]


def affordable(costs: Mapping[str, float], budget_s: float, commit: str) -> list[str]:
    """Names until they have cost the budget, in an order that the commit says, the first of each folder ahead."""
    order = sample(costs, len(costs), commit)
    first = {folder_of(name): name for name in reversed(order)}
    taken, spent_s = [], 0.0
    for name in dict.fromkeys([*first.values(), *order]):
        if spent_s >= budget_s:
            break
        taken.append(name)
        spent_s += costs[name]
    return taken


def _named(nodeid: str, args: Iterable[str]) -> bool:
    """Whether one of the arguments names this test, or some of its cases."""
    for arg in args:
        _, colons, test = arg.partition("::")
        if colons and f"::{nodeid.partition('::')[2]}".startswith(f"::{test}"):
            return True
    return False


def _has_examples(item: pytest.Item) -> bool:
    return hasattr(getattr(item, "obj", None), "hypothesis")


def _commit(config: pytest.Config) -> str:
    asked: str | None = config.getoption("sample")
    if asked is not None:
        return asked
    words = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "--verify", "-q", "HEAD"]
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except FileNotFoundError:
        return NO_COMMIT
    return done.stdout.strip() or NO_COMMIT
