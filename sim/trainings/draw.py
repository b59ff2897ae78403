"""What a seed stands for: a training."""

from __future__ import annotations

from functools import partial
from typing import get_args

from squall.model.generate.keyed import NO_CHANGES, Changes, KeyedChoices
from squall.sim.trainings.talks import WITHOUT_VALUES
from squall.sim.trainings.training import (
    LAYERS_OF,
    MOST_CHUNKS,
    PAIRS,
    PIPELINES,
    Call,
    Dtype,
    Layer,
    Operator,
    Optimizer,
    Schedule,
    Talk,
    Training,
    Wrapper,
)

#: of each wrapper: words that :mod:`.render` knows
OPTIONS: dict[Wrapper, tuple[str, ...]] = {
    "by hand": ("async", "flat"),
    "ddp": (
        "other weights",
        "small buckets",
        "find unused",
        "views",
        "static",
        "hook",
        "each round",
    ),
    "zero": ("other weights", "small buckets", "find unused", "views", "each round"),
    "fsdp": ("keep", "whole", "each round", "mixed precision"),
    "hsdp": ("keep", "whole", "each round", "mixed precision"),
    "tp": (),
    "dp x tp": (),
    "pipeline": (),
    "pp x dp": ("inner",),
}
#: how the model is saved, and loaded again: by those that have all of it, or parts of each tensor
_SAVED: dict[str, float] = {"checkpoint": 0.06, "checkpoint beside": 0.06}
_SAVING: frozenset[Wrapper] = frozenset({"ddp", "zero", "fsdp", "hsdp", "tp", "dp x tp"})
#: how often one is drawn: each has its share of the time, which one with sharded tensors takes more of
_SHARES: dict[Wrapper, int] = {
    "by hand": 10,
    "ddp": 12,
    "zero": 9,
    "fsdp": 4,
    "hsdp": 3,
    "tp": 3,
    "dp x tp": 2,
    "pipeline": 6,
    "pp x dp": 3,
}
_WRAPPERS = tuple(wrapper for wrapper, times in _SHARES.items() for _ in range(times))
#: of options that are drawn otherwise than in three of ten: without them there is one bucket, and nothing to wait for
_CHANCES = {"small buckets": 0.6, "async": 0.6}
_MOST_LAYERS, _MOST_STEPS, _MOST_TALKS, _MOST_CHUNKS = 4, 3, 6, 4
#: how many ranks, each as often as it is here: two show most of what there is to see in the least time
_RANKS = (*[2] * 50, *[3] * 24, *[4] * 25, 8)
#: which has no large tensors; and what has an operator that does not suit whole numbers
_SMALL: frozenset[Call] = WITHOUT_VALUES | {"sharded tensor", "remote gradients"}
_REDUCING: frozenset[Call] = frozenset({"all_reduce", "reduce", "reduce_scatter"})


def draw_training(seed: int, changes: Changes = NO_CHANGES) -> Training:
    """The training of a seed."""
    choices = KeyedChoices(("training", seed), changes)
    return choices.group("training", partial(_draw, choices, seed))


def _draw(choices: KeyedChoices, seed: int) -> Training:
    wrapper = choices.choice("wrapper", _WRAPPERS)
    ranks = choices.choice("ranks", _RANKS)
    if (wrapper in PAIRS and ranks < 4) or (wrapper == "tp" and ranks != 2):
        ranks = 4
    schedule: Schedule = (
        choices.pick("schedule", get_args(Schedule)) if wrapper in PIPELINES else "GPipe"
    )
    chunks = choices.integer("chunks", 1, _MOST_CHUNKS)
    stages = 0
    if wrapper in PIPELINES:
        per_rank, in_a_row = (
            1 if schedule in ("GPipe", "1F1B") else 2,
            2 if wrapper in PAIRS else ranks,
        )
        stages = in_a_row * per_rank
        # Schedules of several stages a rank want a multiple of the ranks, the others as many as there are.
        rounds_of_chunks = max(1, min(chunks // 2, MOST_CHUNKS // in_a_row))
        chunks = in_a_row * rounds_of_chunks if per_rank > 1 else max(chunks, in_a_row)
    layers = _draw_layers(choices, wrapper, stages)
    steps = choices.integer("steps", 1, _MOST_STEPS)
    rounds = 2 if choices.chance("rounds", 0.3) else 1
    if "buffer" in layers or wrapper in PIPELINES:
        rounds = 1
    options = {
        option
        for option in OPTIONS[wrapper]
        if choices.chance(f"option {option}", _CHANCES.get(option, 0.3))
    }
    if rounds > 1 or {"unused", "sometimes"} & {*layers}:
        options.discard("static")
    if rounds > 1:
        options.discard("mixed precision")
    if schedule == "InterleavedZeroBubble":  # finding zero-bubble-misses-resharded-weights
        options.discard("inner")
    if wrapper in _SAVING:
        options |= {how for how, share in _SAVED.items() if choices.chance(f"option {how}", share)}
    talks = choices.integer("talks", 0, _MOST_TALKS)
    return Training(
        ranks=ranks,
        seed=seed,
        layers=layers,
        wrapper=wrapper,
        options=tuple(sorted(options)),
        optimizer=choices.pick("optimizer", get_args(Optimizer)),
        steps=steps,
        rounds=rounds,
        schedule=schedule,
        chunks=chunks if wrapper in PIPELINES else 2,
        talks=tuple(
            choices.group("talk", partial(_draw_talk, choices, ranks, steps)) for _ in range(talks)
        ),
    )


def _draw_layers(choices: KeyedChoices, wrapper: Wrapper, stages: int) -> tuple[Layer, ...]:
    known = LAYERS_OF[wrapper]
    count = stages or choices.integer("layers", 1, _MOST_LAYERS)
    drawn: list[Layer] = [
        choices.pick("layer", known) if choices.chance("special", 0.5) else "linear"
        for _ in range(count)
    ]
    if drawn[0] in ("again", "unused", "sometimes", "frozen") or not {"linear", "norm"} & {*drawn}:
        drawn[0] = "linear"
    return tuple(drawn)


def _draw_talk(choices: KeyedChoices, ranks: int, steps: int) -> Talk:
    call: Call = choices.pick("call", get_args(Call))
    among = [rank for rank in range(ranks) if choices.chance(f"rank {rank}", 0.75)]
    if len(among) < 2:
        among = list(range(ranks))
    operator: Operator = (
        choices.pick("operator", get_args(Operator)) if call in _REDUCING else "SUM"
    )
    dtype: Dtype = "float64" if call in WITHOUT_VALUES else choices.pick("dtype", get_args(Dtype))
    if operator == "AVG" and dtype == "int64":  # which gloo refuses
        operator = "SUM"
    at_work = choices.chance("at work", 0.4)
    return Talk(
        call=call,
        among=tuple(among),
        after=choices.integer("after", 0, steps - 1),
        root=choices.integer("root", 0, len(among) - 1),
        operator=operator,
        dtype=dtype,
        at_work=at_work,
        on_thread=at_work and choices.chance("on a thread", 0.3),
        large=call not in _SMALL and choices.chance("large", 0.03),
    )
