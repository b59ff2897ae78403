"""Exceptions where code of the user's runs."""

from __future__ import annotations

import pickle
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from squall.model.events.names import ordinal, worker_named
from squall.real.interceptor import Place
from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.inner import ErrorFault, InjectedError
from squall.sim.faults.limits import Count, Rank

Where = Literal["udf", "hook", "backward", "pickle", "unpickle"]
#: what is at each place
_PLACES: dict[Where, str] = {
    "udf": "function",
    "hook": "hook",
    "backward": "autograd node",
    "pickle": "pickling",
    "unpickle": "unpickling",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Raise(ErrorFault):
    """The ``nth`` time (from 1) that the worker comes to ``where``, an exception is raised there:
    as a user function starts (``udf``), in a ``hook`` of a node or leaf, in a node's
    ``backward``, while a value is pickled or unpickled for the wire (``pickle``,
    ``unpickle``)."""

    position: ClassVar[int] = 3

    kind: Literal["raise"] = "raise"
    worker: Rank
    where: Where
    nth: Count

    def told(self, names: Mapping[int, str]) -> str:
        place = _PLACES[self.where]
        where = f"the {ordinal(self.nth)} {place} on {worker_named(names, self.worker)}"
        return f"raises an error in {where}"

    @property
    def place(self) -> Place:
        return "node" if self.where == "backward" else self.where

    @property
    def detail(self) -> object:
        return f"{self.where} {self.nth}"

    def error(self) -> Exception:
        text = f"injected: {self.where} {self.nth} of worker {self.worker} fails"
        if self.where == "pickle":
            return pickle.PicklingError(text)
        if self.where == "unpickle":
            return pickle.UnpicklingError(text)
        return InjectedError(text)


@drawn("raise")
def some(choices: Choices, stream: random.Random) -> list[Raise]:
    return [
        Raise(
            worker=choices.worker(stream),
            where=stream.choice(get_args(Where)),
            nth=stream.randint(1, 8),
        )
        for _ in choices.items(stream)
    ]
