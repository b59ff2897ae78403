"""Examples in the docstrings of the public names do what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import squall

MODULES = [
    import_module(f"squall.sim.library.{name}")
    for name in ("faults", "network", "run", "search", "testing")
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path))
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    for test in finder.find(module):
        # An example is typed in by somebody: its functions are those of a main module.
        test.globs = {"__name__": "__main__"}
        runner.run(test)
    assert runner.tries >= 4 and not runner.failures


@pytest.mark.parametrize("name", squall.__all__)
def test_every_public_name_says_what_it_is(name: str) -> None:
    thing = getattr(squall, name)
    assert name == "__version__" or thing.__doc__
    assert name in dir(squall)


def test_modules_of_the_package_can_be_imported_by_their_names() -> None:
    from squall.faults import drop, plan
    from squall.network import hold

    assert len(plan(drop(nth=(1,)))) == 1
    assert squall.network.hold is hold and squall.faults.plan is plan
