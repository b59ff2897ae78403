"""What the matrix measures, on a few scenarios; ``make matrix`` measures all of it."""

from __future__ import annotations

import pytest

from squall.properties.matrix import run as runs
from squall.properties.matrix.environments import MissingError, interpreter
from squall.properties.matrix.page import PAGE, page
from squall.properties.matrix.rows import BY_NAME, REFERENCE

SEEDS = 2


@pytest.fixture(scope="module")
def reference() -> runs.Digests:
    return runs.digests_of(REFERENCE, SEEDS, "storm")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["processor", "elsewhere"])
def test_digests_do_not_depend_on_it(name: str, reference: runs.Digests) -> None:
    try:
        found = runs.digests_of(BY_NAME[name], SEEDS, "storm")
    except MissingError as missing:
        pytest.skip(str(missing))
    assert len(reference) == SEEDS
    assert found == reference


def test_the_page_says_what_was_measured() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_measured_row_is_a_row() -> None:
    assert set(runs.load()) <= set(BY_NAME)


def test_a_python_that_is_not_there_is_missing() -> None:
    with pytest.raises(MissingError, match=r"no Python 3\.99"):
        interpreter("3.99")
