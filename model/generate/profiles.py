"""What a generated program is made of: drawn once for each program.

Each program has a few features and uses them often, instead of all of them rarely; so different
programs stress different things. A program without any shrinks fastest.
"""

from __future__ import annotations

from typing import NamedTuple

from squall.model.generate.concurrent import draw_kinds
from squall.model.program.choices import Choices
from squall.model.program.kind import ALWAYS, Kind
from squall.model.program.operations import KINDS
from squall.model.program.program import Call, Dtype, Grad, Hook, Mode

_WORKERS = (1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 6, 8)
_TRAINERS = (1, 1, 1, 1, 2, 2, 2, 3, 4)
_STEPS = (1, 1, 1, 2, 2, 3)
#: how many programs leave their group and meet again, and in how many groups at most
_SEVERAL_GROUPS = 0.12
_MOST_GROUPS = 3
#: how many programs have stories that tell many small things at once, and cost as much
_WITH_WIDE_STORIES = 0.08
#: how many programs have steps within a profile
_PROFILED = 0.06

#: kinds of operations by the feature that brings them, in the order of both
_KINDS: dict[str, list[Kind]] = {ALWAYS: []}
for _kind in KINDS.values():
    for _feature in _kind.features:
        _KINDS.setdefault(_feature, []).append(_kind)

#: torch before 2.12 makes of bfloat16 and a complex scalar a dtype that it cannot multiply
_DTYPES: tuple[tuple[Dtype, ...], ...] = (
    ("float32", "float32", "float64", "bfloat16"),
    ("float32", "float32", "float64", "complex64"),
)

#: how often a feature is drawn, compared with the others
_WEIGHTS = {
    **{feature: 3 for feature in _KINDS if feature != ALWAYS},
    "async": 4,
    "references": 5,
    "async_execution": 2,
    "helpers": 2,
    "nested": 4,
    "builtin": 2,
    "no_grad": 2,
    "hooks": 3,
    "increment": 1,
    "leaf hooks": 2,
    "partial": 2,
    "unused": 1,
    "faults": 4,
    "passes": 4,
    "remote roots": 3,
    "optimizer": 2,
    "overlap": 4,
    "keep": 3,
    "odd shapes": 3,
    "gathers": 1,
}


class Scale(NamedTuple):
    """How large programs of one size get."""

    workers: tuple[int, ...]
    trainers: tuple[int, ...]
    steps: tuple[int, ...]
    ops: int
    leaves: int
    features: int


_SMALL = Scale(workers=(1, 2, 2, 2, 2, 3), trainers=(1,), steps=(1,), ops=4, leaves=2, features=10)
_MIDDLE = Scale(
    workers=(2, 2, 3, 3, 4), trainers=(1, 1, 2), steps=(1, 1, 2), ops=5, leaves=3, features=12
)
_LARGE = Scale(_WORKERS, _TRAINERS, _STEPS, ops=7, leaves=4, features=14)
#: most bugs show in little programs, of which there are many a second; some need large ones
_SIZES = (_SMALL,) * 16 + (_MIDDLE,) * 3 + (_LARGE,)


class Limits(NamedTuple):
    """How large generated programs may get, and whether they may be meant to fail.

    ``least_workers``: how many workers they have at least. ``mixed``: most are much smaller.
    ``unused``: something may be left unused that a worker then waits for. ``faults``: errors may be planted. ``stories``: there may be stories beside the
    computation (model/program/stories.py). ``sleeps``: user code may sleep in backward passes, which
    then may fail. ``beside``: there may be cargo, chains of references and updates beside it.
    ``groups``: there may be several RPC groups, one after the other. ``acts``: there may be stories
    that do acts, with contexts and calls without a limit only where there are other stories.
    """

    workers: int = 8
    least_workers: int = 1
    trainers: int = 4
    steps: int = 3
    ops: int = 7
    leaves: int = 4
    mixed: bool = True
    unused: bool = True
    faults: bool = True
    stories: bool = True
    sleeps: bool = True
    groups: bool = True
    beside: bool = True
    acts: bool = True


class Profile(NamedTuple):
    """The features of one program. At the simplest choices, all but the sizes are off."""

    mode: Mode
    dtypes: tuple[Dtype, ...]
    workers: int
    trainers: int
    #: how many steps a trainer may have, repeated to weigh them
    steps: tuple[int, ...]
    #: at most so many operations in a step, and leaves
    ops: int
    leaves: int
    kinds: tuple[str, ...]
    calls: tuple[Call, ...]
    references: bool
    nested: bool
    builtin: bool
    grads: tuple[Grad, ...]
    hooks: tuple[Hook, ...]
    leaf_hooks: bool
    #: leave some outputs of operations with several unused
    partial: bool
    #: leave something unused whose gradient a worker will wait for without end
    unused: bool
    faults: bool
    passes: bool
    remote_roots: bool
    optimizer: bool
    overlap: bool
    keep: bool
    embedding: bool
    odd_shapes: bool
    stories: bool
    sized_stories: bool
    wide_stories: bool
    acts: bool
    #: some steps run within a profile
    profiled: bool
    #: whether nothing fails but what the program itself makes fail
    calm: bool
    gathers: bool
    #: RPC groups, one after the other
    groups: int
    #: what goes on beside steps: the fields of these
    beside: tuple[str, ...]


def draw_profile(choices: Choices, limits: Limits) -> Profile:
    """Draw the features of a program."""
    mode: Mode = choices.choice("mode", ("exact", "exact", "float"))
    size = choices.choice("size", _SIZES) if limits.mixed else _LARGE
    workers = min(choices.choice("workers", size.workers), limits.workers)
    workers = max(workers, limits.least_workers)
    trainers = min(choices.choice("trainers", size.trainers), limits.trainers)
    has = choices.some("feature", _WEIGHTS, size.features)
    references = "references" in has or "helpers" in has
    unused = limits.unused and "unused" in has
    partial = "partial" in has
    # A hook could tell gradients that are missing from zeros that came from another worker.
    increment = "increment" in has and not partial and not unused
    faults = limits.faults and "faults" in has and not unused
    return Profile(
        mode=mode,
        dtypes=choices.choice("dtypes", _DTYPES),
        workers=workers,
        trainers=trainers,
        steps=tuple(min(steps, limits.steps) for steps in size.steps),
        ops=min(size.ops, limits.ops),
        leaves=min(size.leaves, limits.leaves),
        kinds=_kinds(has, mode, undefined=not increment and not faults),
        calls=_calls(has),
        references=references,
        nested="nested" in has,
        builtin="builtin" in has,
        grads=("on", "on", "on", "on", "off", "off_at_caller") if "no_grad" in has else ("on",),
        hooks=_hooks(has, increment),
        leaf_hooks="leaf hooks" in has,
        partial=partial,
        unused=unused,
        faults=faults,
        passes="passes" in has,
        remote_roots="remote roots" in has,
        optimizer="optimizer" in has,
        overlap="overlap" in has,
        keep=references and "keep" in has,
        embedding="embedding" in has,
        odd_shapes="odd shapes" in has,
        stories=choices.chance("stories", 0.2) and limits.stories,
        acts=choices.chance("acts", 0.3) and limits.acts,
        profiled=choices.chance("profiled", _PROFILED),
        calm=limits.stories,
        sized_stories=choices.chance("sized stories", 0.18) and limits.stories,
        wide_stories=limits.stories and choices.chance("wide stories", _WITH_WIDE_STORIES),
        gathers="gathers" in has,
        groups=choices.integer("groups", 2, _MOST_GROUPS)
        if limits.groups and choices.chance("groups", _SEVERAL_GROUPS)
        else 1,
        beside=draw_kinds(choices) if limits.beside else (),
    )


def _kinds(has: set[str], mode: Mode, *, undefined: bool) -> tuple[str, ...]:
    """The kinds of operations of a program with these features; one that two of them bring is
    there twice."""
    brought = [
        kind
        for feature, group in _KINDS.items()
        if feature == ALWAYS or feature in has
        for kind in group
    ]
    kinds = [kind for kind in brought if kind.exact]
    if mode == "float":
        kinds += [kind for kind in brought if not kind.exact]
        kinds = [kind for kind in kinds if not kind.cancels]
    return tuple(kind.name for kind in kinds if undefined or not kind.undefined)


def _calls(has: set[str]) -> tuple[Call, ...]:
    calls: list[Call] = ["local", "sync", "sync"]
    if "async" in has:
        calls += ["async", "async"]
    if "references" in has:
        calls += ["remote", "remote", "rref"]
    if "async_execution" in has:
        calls += ["async_execution"]
    if "helpers" in has:
        calls += ["helper_sync", "helper_async", "helper_remote"]
    return tuple(calls)


def _hooks(has: set[str], increment: bool) -> tuple[Hook, ...]:
    hooks: list[Hook] = []
    if "hooks" in has:
        hooks += ["look", "double", "node_pre", "node_post", "retain_grad"]
    if increment:
        hooks += ["increment", "increment"]
    return tuple(hooks)
