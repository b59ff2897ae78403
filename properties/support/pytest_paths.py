"""``pytest properties/x`` collects ``squall/properties/x``: one name for each module.

The folders stand at the top of the repository, and ``squall/`` links to them. A test file that is
given by its place at the top would be imported under a second name, its helpers with it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1].resolve()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """The first conftest.py files are looked for beside the files and folders that are given."""
    given = early_config.known_args_namespace
    given.file_or_dir = [_as_imported(arg) for arg in given.file_or_dir]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """What is collected; options are left alone, whose values may be named as a folder is."""
    config.args[:] = [_as_imported(arg) for arg in config.args]


def _as_imported(arg: str) -> str:
    path, colons, test = arg.partition("::")
    place = Path.cwd() / path
    if _TESTS not in (place, *place.parents):
        return arg
    return f"{_TESTS.parent / 'squall' / 'properties' / place.relative_to(_TESTS)}{colons}{test}"
