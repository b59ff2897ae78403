"""Updates of what several tasks of several workers change at the same time.

They go on beside a step. Parameters on some workers are trained by several trainers at once, each
with a ``DistributedOptimizer`` of its own or all with the same one, through optimizers that let
others run between what they read and what they write; and a ledger on ``worker`` whose methods do
so under a lock of its own. Each update is of another power of two, so that the sums tell which of
them have happened, and how often: each that came to no error once, each other one at most once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from squall.model.program.made import Checked

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


def plain(updates: Updates) -> dict[str, Any]:
    """The updates as plain values: what a script can have."""
    return {field.name: getattr(updates, field.name) for field in fields(updates)}
