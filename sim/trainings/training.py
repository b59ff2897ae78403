"""A training over process groups, as data: a model, how it is distributed, and what ranks tell each other between
steps.

It is played as the script that :mod:`.render` makes of it, whose text has the data in its first comment, so that
whoever has the script has the training (:func:`training_in`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import ConfigDict, Field, TypeAdapter

from squall.model.program.strict_json import MadeError
from squall.model.program.validated import Checked, check_fields

Layer = Literal[
    "linear", "wide", "norm", "buffer", "again", "frozen", "unused", "sometimes", "float32"
]
Wrapper = Literal["by hand", "ddp", "zero", "fsdp", "hsdp", "tp", "dp x tp", "pipeline", "pp x dp"]
Schedule = Literal["GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble"]
Optimizer = Literal["SGD", "AdamW"]
Call = Literal[
    "all_reduce",
    "reduce",
    "broadcast",
    "all_gather",
    "gather",
    "scatter",
    "reduce_scatter",
    "all_to_all",
    "ring",
    "batched ring",
    "any source",
    "tags",
    "objects",
    "store",
    "barrier",
    "sharded tensor",
    "remote gradients",
]
Operator = Literal["SUM", "MAX", "MIN", "PRODUCT", "AVG"]
Dtype = Literal["float32", "float64", "int64"]

#: what stands before the data in a script
MARK = "# training: "
_STRICT = ConfigDict(extra="forbid", strict=True)
_ALL: tuple[Layer, ...] = get_args(Layer)
#: what a model can be made of, by how it is distributed
LAYERS_OF: dict[Wrapper, tuple[Layer, ...]] = {
    "by hand": tuple(layer for layer in _ALL if layer != "buffer"),
    "ddp": _ALL,
    "zero": tuple(layer for layer in _ALL if layer != "float32"),
    "fsdp": ("linear", "wide", "norm", "frozen"),
    "hsdp": ("linear", "wide", "norm", "frozen"),
    "tp": ("linear",),
    "dp x tp": ("linear",),
    "pipeline": ("linear", "wide", "norm"),
    "pp x dp": ("linear", "wide", "norm"),
}
MOST_CHUNKS = 8
#: of which ranks are in a mesh of pairs, and of which each rank has some of the layers
PAIRS: frozenset[Wrapper] = frozenset({"hsdp", "dp x tp", "pp x dp"})
PIPELINES: frozenset[Wrapper] = frozenset({"pipeline", "pp x dp"})
#: of which a rank has parts of tensors
SHARDED: frozenset[Wrapper] = frozenset({"fsdp", "hsdp", "tp", "dp x tp", "pp x dp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk(Checked):
    """What ranks ``among`` the group tell each other after a step.

    ``at_work``: it is begun before that step and waited for after it; ``on_thread``: by a thread of its own.
    ``root``: an index into ``among``. ``large``: tensors of more than a megabyte, which processes share.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    call: Call
    among: Annotated[tuple[int, ...], Field(min_length=2)]
    after: Annotated[int, Field(ge=0)] = 0
    root: Annotated[int, Field(ge=0)] = 0
    operator: Operator = "SUM"
    dtype: Dtype = "float64"
    at_work: bool = False
    on_thread: bool = False
    large: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if list(self.among) != sorted(set(self.among)):
            raise MadeError(f"Talk.among: {self.among} is wrong: should be ranks in their order")
        if self.root >= len(self.among):
            raise MadeError(f"Talk.root: {self.root} is wrong: should be below {len(self.among)}")
        if self.on_thread and not self.at_work:
            raise MadeError("Talk.on_thread: True is wrong: should be False without at_work")
        if self.operator == "AVG" and self.dtype == "int64":
            raise MadeError("Talk.operator: 'AVG' is wrong: should be another one for int64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Training(Checked):
    """``seed`` of weights and batches. ``rounds``: batches whose gradients one step adds up.
    ``options`` of the wrapper, each a word that :mod:`.render` knows. ``chunks`` and ``schedule`` of a pipeline."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    ranks: Annotated[int, Field(ge=2, le=8)] = 2
    seed: Annotated[int, Field(ge=0)] = 0
    layers: Annotated[tuple[Layer, ...], Field(min_length=1)] = ("linear",)
    wrapper: Wrapper = "ddp"
    options: tuple[str, ...] = ()
    optimizer: Optimizer = "SGD"
    steps: Annotated[int, Field(ge=1, le=4)] = 1
    rounds: Annotated[int, Field(ge=1, le=3)] = 1
    schedule: Schedule = "GPipe"
    chunks: Annotated[int, Field(ge=1, le=MOST_CHUNKS)] = 2
    talks: tuple[Talk, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        for layer in self.layers:
            if layer not in LAYERS_OF[self.wrapper]:
                raise MadeError(f"Training.layers: {layer!r} is wrong: {self.wrapper} has none")
        if not {"linear", "norm"} & {*self.layers}:
            raise MadeError("Training.layers: should have one that is trained")
        # A layer that is four wide has no parts for more.
        possible = (4, 6, 8) if self.wrapper in PAIRS else (2, 4) if self.wrapper == "tp" else ()
        if possible and self.ranks not in possible:
            *others, last = map(str, possible)
            problem = f"should be {', '.join(others)} or {last} for {self.wrapper}"
            raise MadeError(f"Training.ranks: {self.ranks} is wrong: {problem}")
        if self.rounds > 1 and ("buffer" in self.layers or self.wrapper in PIPELINES):
            raise MadeError(f"Training.rounds: {self.rounds} is wrong: should be 1 for it")
        if self.wrapper in PIPELINES and len(self.layers) != self.stages:
            raise MadeError(
                f"Training.layers: {self.layers} is wrong: should be {self.stages}, a stage each"
            )
        if self.rounds > 1 and "mixed precision" in self.options:
            raise MadeError(
                f"Training.rounds: {self.rounds} is wrong: should be 1 for mixed precision"
            )
        for talk in self.talks:
            if talk.among[-1] >= self.ranks or talk.after >= self.steps:
                raise MadeError(f"Training.talks: {talk} is wrong: there is no such rank, or step")

    @property
    def stages_a_rank(self) -> int:
        """Of a pipeline."""
        return 1 if self.schedule in ("GPipe", "1F1B") else 2

    @property
    def stages(self) -> int:
        """Of a pipeline."""
        return self.stages_a_rank * (2 if self.wrapper == "pp x dp" else self.ranks)

    @property
    def shares(self) -> int:
        """In how many parts a batch is trained on at the same time."""
        if self.wrapper in ("tp", "pipeline"):
            return 1
        return self.ranks // 2 if self.wrapper in ("dp x tp", "pp x dp") else self.ranks

    @property
    def kind(self) -> str:
        """In trainings of one kind ranks do much alike: how many they are and how it is distributed, where tensors are sharded;
        all others are of one kind."""
        return f"{self.ranks} {self.wrapper}" if self.wrapper in SHARDED else "2 ddp"

    @property
    def size(self) -> int:
        """The less, the plainer."""
        talks = sum(
            2
            + talk.at_work
            + talk.on_thread
            + talk.large
            + (talk.operator != "SUM")
            + len(talk.among)
            for talk in self.talks
        )
        plain = (self.optimizer == "SGD") + (self.wrapper == "by hand")
        return 10 * self.ranks + 4 * len(self.layers) + 3 * self.steps + 3 * self.rounds + (
            2 * len(self.options) + self.chunks + talks + 2 - plain
        )  # fmt: skip


_READ = TypeAdapter(Training)


def header(training: Training) -> str:
    """The comment that has it: what differs from a plain one."""
    plain = asdict(Training())
    said = {name: it for name, it in asdict(training).items() if it != plain[name]}
    return MARK + json.dumps(said)


def training_in(text: str) -> Training | None:
    """The training whose script this is; None for any other script. Raises ValueError for data that is none."""
    if MARK not in text:
        return None
    for line in text.splitlines():
        if line.startswith(MARK):
            return _READ.validate_json(line.removeprefix(MARK))
    return None
