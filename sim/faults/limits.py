"""The types of the fields of faults: each says which values make sense, to pydantic."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo

from squall.model.program.strict_json import wrong
from squall.real.rpc.message_type import MessageType
from squall.real.tracing import EventType
from squall.sim.world.schedule import MOST_COUNT

#: unknown fields are refused, values are of the very type, and what Python code made is checked
#: as well as what was read
STRICT = ConfigDict(extra="forbid", strict=True, revalidate_instances="always")

#: seconds, or times as much, that nothing lasts or is
MOST = 1e9

#: a duration, or a time since the start
Seconds = Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)]
#: by how much something is multiplied
Factor = Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
#: how many, or which one counted from 1
Count = Annotated[int, Field(gt=0, le=MOST_COUNT)]
#: names the random stream of an item that draws
Id = Annotated[int, Field(ge=0, le=MOST_COUNT)]

Direction = Literal["any", "request", "response"]
#: what becomes of a message that a link or a partition does not let through: it is lost, it waits
#: until the way is open, or its sender is told at once
Cut = Literal["drop", "hold", "fail"]


def _one_of_the_workers(rank: int, info: ValidationInfo) -> int:
    workers = (info.context or {}).get("workers")
    if workers is not None and rank >= workers:
        only = "the only worker, 0" if workers == 1 else f"one of the {workers} workers"
        raise wrong(f"is not {only}")
    return rank


#: a worker; validated with ``context={"workers": n}`` it is one of that many
Rank = Annotated[int, Field(ge=0), AfterValidator(_one_of_the_workers)]


def _message_type(name: str) -> str:
    if name not in MessageType.__members__:
        raise wrong(f"is no message type; there are {', '.join(MessageType.__members__)}")
    return name


MessageTypeName = Annotated[str, AfterValidator(_message_type)]


def _event(name: str) -> str:
    if name not in EventType.registry:
        raise wrong(f"is no event; there are {', '.join(EventType.registry)}")
    return name


#: an event of the trace (real/tracing.py)
EventName = Annotated[str, AfterValidator(_event)]

#: a field of an item, and what is wrong with its value
Problem = tuple[str, str]


def window_problem(from_s: float, until_s: float | None) -> Problem | None:
    """What is wrong with a window of time that ends before it begins."""
    if until_s is not None and until_s < from_s:
        return "until_s", f"{until_s} is before from_s, {from_s}"
    return None
