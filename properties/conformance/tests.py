"""What is known of a test of PyTorch's: what it is, what it did, and what that means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from squall.sim.names import Device

Outcome = Literal["passed", "failed", "skipped"]
Verdict = Literal["passed", "failed", "not_applicable"]
VERDICTS: tuple[Verdict, ...] = ("passed", "failed", "not_applicable")

#: processes of a test
WORLD_SIZE = 4
#: and of one of process groups: as PyTorch's own CI has them, and of one that skips itself where they are so few
IN_GROUPS, MORE_IN_GROUPS = 3, 8
TOO_FEW = "Skipped due to small world size."
#: of virtual time, as torch's harness allows that much of real time
TIMEOUT_S = 300.0
#: how much of what a test printed is kept
LOG_CHARACTERS = 12_000


class MissingPackageError(RuntimeError):
    """A package that PyTorch's test utilities need is not installed."""

    @classmethod
    def named(cls, name: str | None) -> MissingPackageError:
        return cls(f"PyTorch's test utilities need the package {name}: pip install {name}")


@dataclass(frozen=True)
class TestClass:
    """A class of tests, perhaps in another one, and the fixture that torch mixes into it.

    ``of_groups``: the tests are of process groups, and each begins in one.
    """

    module: str
    name: str
    fixture: tuple[str, str]
    of_groups: bool = False

    __test__ = False  # pytest


@dataclass(frozen=True)
class Test:
    """One test method. ``id`` is ``Class.method``, unique among all suites."""

    suite: str
    owner: TestClass
    method: str
    #: where its tensors live that are on "cuda"
    device: Device = "cpu"

    __test__ = False  # pytest

    @property
    def id(self) -> str:
        return f"{self.owner.name.partition('.')[0]}.{self.method}"


@dataclass(frozen=True)
class Played:
    """What a test did on its cluster. ``why`` says what went wrong or why it skipped itself."""

    outcome: Outcome
    why: str = ""
    log: str = ""
    #: wall time
    seconds: float = 0.0


@dataclass(frozen=True)
class Result:
    """How one test came out. ``why`` is empty for one that passed; ``log`` is what it printed."""

    test: Test
    verdict: Verdict
    why: str
    log: str
    #: wall time
    seconds: float
