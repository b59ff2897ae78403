"""Updates of what several tasks of several workers change at the same time.

They go on beside a step. Parameters on some workers are trained by several trainers at once, each
with a ``DistributedOptimizer`` of its own or all with the same one, through optimizers that let
others run between what they read and what they write; and a ledger on ``worker`` whose methods do
so under a lock of its own. Each update is of another power of two, so that the sums tell which of
them have happened, and how often: each that came to no error once, each other one at most once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import ConfigDict, Field

from squall.model.program.choices import Choices
from squall.model.program.validated import Checked, plain

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

#: how a parameter is changed
Stepper = Literal[
    "slow",  # an optimizer that waits between reading a parameter and writing it
    "hesitant",  # one that waits before it looks at gradients
    "functional",  # torch.optim.SGD, which has a functional twin
    "registered",  # a slow one with a functional twin of its own, which it has registered
]
LedgerCall = Literal["sync", "async", "remote"]
#: updates of all trainers together: as powers of two, their sums are exact
MOST_UPDATES = 30
_STEPPERS = tuple(stepper for stepper in get_args(Stepper) if stepper != "registered")
_CALLS: tuple[LedgerCall, ...] = get_args(LedgerCall)
#: to register an optimizer takes a second of a process, once
_REGISTERED = 0.1
_PAUSES_S = (0.0, 0.0001, 0.001, 0.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates(Checked):
    """Parameters on ``owners``, changed ``steps`` times by each of ``trainers``, which are workers.

    ``shared``: all with one optimizer, which is sent to them. ``skips``: a step leaves out one of
    several parameters. ``pause_s``: seconds that optimizers and the ledger wait. ``ledger``: how
    trainers call the ledger on ``worker``. ``waits``: until all of it is there, before references
    are handed on. ``fails``: the second step of each optimizer that waits raises, and when all
    have ended there is a step that raises on one owner only.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT
    #: the field of a step that has such, how many at most, and how many programs have some
    field: ClassVar[str] = "updates"
    most: ClassVar[int] = 1
    often: ClassVar[float] = 0.15

    worker: int
    before: int = 0
    owners: Annotated[tuple[int, ...], Field(min_length=1, max_length=5)] = (0,)
    trainers: Annotated[tuple[int, ...], Field(min_length=1, max_length=5)] = (0,)
    steps: Annotated[int, Field(ge=1, le=5)] = 1
    stepper: Stepper = "slow"
    shared: bool = False
    skips: bool = False
    pause_s: Annotated[float, Field(ge=0, le=10)] = 0.0
    ledger: LedgerCall = "sync"
    waits: bool = False
    fails: bool = False

    @property
    def handlers(self) -> int:
        """Each who updates makes one call at a time, and is one."""
        return len(self.trainers) * (1 + len(self.owners))

    @property
    def longest_s(self) -> float:
        waits = len(self.trainers) * self.steps * (len(self.owners) + 3)
        return self.pause_s * waits + 1.0

    @property
    def size(self) -> int:
        return self.steps + len(self.owners) + len(self.trainers)

    def wrong(self) -> str | None:
        too_many = len(self.trainers) * self.steps > MOST_UPDATES
        return f"steps: makes more than {MOST_UPDATES} updates" if too_many else None

    def plain(self) -> dict[str, Any]:
        """The updates as plain values: what a script can have."""
        return plain(self)

    @classmethod
    def drawn(cls, choices: Choices, workers: list[int], most_before: int) -> Updates:
        """Some that are drawn; the first of ``workers`` is the trainer's own."""

        def some(name: str, least: int) -> tuple[int, ...]:
            pick = partial(choices.pick, "worker", workers)
            return tuple(
                choices.group(name, pick) for _ in range(choices.integer(f"{name}s", least, 3))
            )

        return cls(
            worker=choices.pick("worker", workers),
            before=choices.integer("before", 0, most_before),
            owners=some("owner", 1),
            trainers=some("updater", 2),
            steps=choices.integer("steps", 1, 2),
            stepper="registered"
            if choices.chance("registered", _REGISTERED)
            else choices.pick("stepper", _STEPPERS),
            shared=choices.chance("shared", 0.4),
            skips=choices.chance("skips", 0.4),
            pause_s=choices.choice("pause", _PAUSES_S),
            ledger=choices.pick("ledger", _CALLS),
            waits=choices.chance("waits", 0.5),
            fails=choices.chance("fails", 0.4),
        )

    def for_compiled(self) -> Updates:
        """Without steps that leave out a parameter: PyTorch's engine applies what an earlier step has
        left (stale-gradient-is-applied). And no parameter is handed on within its owner before it is
        created (home-before-creation). Nor is an optimizer registered: PyTorch takes such steps without
        a lock."""
        stepper = "slow" if self.stepper == "registered" else self.stepper
        return replace(self, skips=False, waits=True, stepper=stepper)
