"""The order in which a run does what could happen at one instant, as plain data.

:mod:`squall.sim.world.ordering` makes it happen; a fault plan holds one as its ``schedule``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from squall.model.program.strict_json import MadeError
from squall.model.program.validated import Checked, check_fields
from squall.sim.world.controlled_time import MOST_NAME, Grain

Order = Literal["fifo", "random", "busy", "pct"]
#: no run counts so far
MOST_COUNT = 2**31 - 1
#: which one of things that are counted from 0, and by how much it is late
Number = Annotated[int, Field(ge=0, le=MOST_COUNT)]
#: what a step that was chosen is called (sim/world/controlled_time.py)
Name = Annotated[int, Field(ge=0, le=MOST_NAME)]
Late = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(Checked):
    """What happens first of all that could happen at one instant.

    fifo: what was ready first. random: any, and a task may be interrupted wherever it takes a
    lock, starts a task or looks at an event. busy: as random, and tasks of some workers now and then wait
    for a processor, for up to a second. pct: tasks and messages get random priorities, the
    highest goes first, and at ``depth`` - 1 points among the first ``steps`` steps the running
    one falls below all others (Burckhardt et al., A Randomized Scheduler with Probabilistic
    Guarantees of Finding Bugs): an error that needs d ordering constraints is found with
    probability 1 / (n * steps ** (d - 1)) or more.

    With ``timeless``, as always in the order pct, messages take no time but what faults add: then
    nothing but the order decides which of two arrives first.

    ``late`` and ``yields`` are deviations from fifo, as a run can record them: the wake-up of
    that number (from 0) goes after all others of its instant, the later the larger the second
    number; at the scheduling point of that number the task lets others go first.

    With a ``grain`` the order is one that ``squall explore`` has found: in steps of that grain
    (:class:`squall.sim.world.controlled_time.Chooser`), of all that could go next that which comes first
    in ``chosen``, a list of names, and what was ready first where none of them is in it. Messages
    take no time but what faults add; ``ordered`` ones keep their order on a connection.
    """

    # What a file says must be of exactly these fields and types.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    order: Order = "fifo"
    depth: Annotated[int, Field(gt=0, le=10_000)] = 3
    steps: Annotated[int, Field(gt=0, le=MOST_COUNT)] = 1_000
    late: tuple[tuple[Number, Late], ...] = ()
    yields: tuple[Number, ...] = ()
    timeless: bool = False
    grain: Grain | None = None
    ordered: bool = True
    chosen: tuple[Name, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        if self.order != "fifo" and (self.late or self.yields):
            raise MadeError(
                "Schedule: late and yields are deviations from fifo, and order is " + self.order
            )
        if self.grain is None and (self.chosen or not self.ordered):
            raise MadeError(
                "Schedule: chosen and ordered are for steps, expected a grain with them"
            )
        if self.grain is not None and (self.order != "fifo" or self.late or self.yields):
            raise MadeError(
                "Schedule: with a grain the order is what is chosen, expected no other one"
            )


#: first come, first served
FIFO = Schedule()
