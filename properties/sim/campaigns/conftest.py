"""A PostgreSQL server for the tests of campaigns."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from squall.properties.support.postgresql import Server, missing, running_server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A server of this process of pytest, which a test may end and start again."""
    problem = missing()
    if problem is not None:
        pytest.skip(problem)
    with running_server() as server:
        yield server


@pytest.fixture
def database(postgresql: Server) -> str:
    """The name of an empty database."""
    postgresql.start()
    name = f"campaign_{secrets.token_hex(4)}"
    postgresql.create(name)
    return name
