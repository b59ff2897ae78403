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
class Started:
    """How a class of a checkout's file starts ``ranks`` processes: anew for each test, or (``continuous``) once for
    all, in a process group that is there when a test begins (``MultiProcContinuousTest``). ``environ``: what it sets in
    their environment, and None for what it removes."""

    file: str
    ranks: int
    continuous: bool = False
    environ: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True)
class TestClass:
    """A class of tests, perhaps in another one, and the fixture that torch mixes into it.

    ``of_groups``: the tests are of process groups, and each begins in one. ``started``: of a class out of a
    checkout, which is in no module of the wheel and has its fixture itself.
    """

    module: str
    name: str
    fixture: tuple[str, str]
    of_groups: bool = False
    started: Started | None = None

    __test__ = False  # pytest

    @property
    def sizes(self) -> tuple[int, ...]:
        """With how many ranks its tests are played; with the next number where they skip themselves for so few."""
        if self.started is not None:
            return (self.started.ranks,)
        return (IN_GROUPS, MORE_IN_GROUPS) if self.of_groups else (WORLD_SIZE,)

    @property
    def skips_itself(self) -> bool:
        """Whether its tests say themselves what they need, and no table has to."""
        return self.of_groups or self.started is not None


@dataclass(frozen=True)
class Test:
    """One test method. ``id`` is ``Class.method``, unique among all suites of the wheel; of a checkout
    ``FILE::Class.method``."""

    suite: str
    owner: TestClass
    method: str
    #: where its tensors live that are on "cuda"
    device: Device = "cpu"
    #: why it cannot be played, where that is known before
    skip: str = ""

    __test__ = False  # pytest

    @property
    def id(self) -> str:
        return f"{self.suite}::{self.name}" if self.owner.started is not None else self.name

    @property
    def name(self) -> str:
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
