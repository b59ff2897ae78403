"""What a generated program is made of: drawn once for each program.

Each program uses a few features often instead of all of them rarely, so that different
programs stress different things.
"""

from __future__ import annotations

from typing import NamedTuple

from model.choices import Choices
from model.program import Call, Dtype, Grad, Hook, Mode

#: significant bits of each dtype
BITS: dict[Dtype, int] = {"bfloat16": 8, "float32": 24, "complex64": 24, "float64": 53}

_WORKERS = (1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 6, 8)
_TRAINERS = (1, 1, 1, 1, 2, 2, 2, 3, 4)
_STEPS = (1, 1, 1, 2, 2, 3)

#: further kinds of operations, a group at a time
_GROUPS: tuple[tuple[str, ...], ...] = (
    ("square", "sum", "matmul"),
    ("flat", "transpose", "narrow", "expand"),
    ("pass", "sub", "relu"),
    ("cat", "rows", "split"),
    ("pair", "custom_two", "split"),
    ("custom", "custom_half"),
    ("in_place",),
    ("mixed", "detach"),
    ("embedding",),
)
_FLOAT = ("tanh", "cast", "sigmoid", "mean")
#: they leave some gradients undefined, which arrive as zeros from another worker: a hook tells
_UNDEFINED = ("custom_half", "mixed")
_POSITIVE_NEVER = ("sub",)


class Limits(NamedTuple):
    """How large generated programs may get, and whether they may be meant to fail.

    ``unused``: something may be left unused that a worker then waits for. ``faults``: errors may
    be planted.
    """

    workers: int = 8
    trainers: int = 4
    steps: int = 3
    ops: int = 7
    leaves: int = 4
    unused: bool = True
    faults: bool = True


class Profile(NamedTuple):
    """The features of one program. All but the sizes are off at their simplest."""

    mode: Mode
    workers: int
    trainers: int
    steps: int
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
    #: leave something unused that a worker will wait for
    unused: bool
    faults: bool
    passes: bool
    remote_roots: bool
    optimizer: bool
    overlap: bool
    keep: bool
    embedding: bool
    odd_shapes: bool


def draw_profile(choices: Choices, limits: Limits) -> Profile:
    """Draw the features of a program."""
    chance = choices.chance
    mode: Mode = choices.choice("mode", ("exact", "exact", "float"))
    workers = min(choices.choice("workers", _WORKERS), limits.workers)
    trainers = min(choices.choice("trainers", _TRAINERS), limits.trainers)
    kinds: list[str] = ["scale", "add", "mul"]
    for group in _GROUPS:
        if chance(group[0], 0.3):
            kinds += group
    if mode == "float":
        kinds += _FLOAT
        kinds = [kind for kind in kinds if kind not in _POSITIVE_NEVER]
    calls: list[Call] = ["local", "sync", "sync"]
    if chance("async", 0.35):
        calls += ["async", "async"]
    references = chance("references", 0.4)
    if references:
        calls += ["remote", "remote", "rref"]
    if chance("async_execution", 0.15):
        calls += ["async_execution"]
    if chance("helpers", 0.2):
        calls += ["helper_sync", "helper_async", "helper_remote"]
        references = True
    hooks: tuple[Hook, ...] = ()
    partial = chance("partial", 0.15)
    unused = limits.unused and chance("unused", 0.05)
    if chance("hooks", 0.25):
        hooks = ("look", "double", "node_pre", "node_post", "retain_grad")
        if not partial and not unused and chance("increment", 0.5):
            hooks += ("increment", "increment")
    faults = limits.faults and not unused and not partial and chance("faults", 0.12)
    if faults or "increment" in hooks:
        kinds = [kind for kind in kinds if kind not in _UNDEFINED]
    grads: tuple[Grad, ...] = ("on",)
    if chance("no_grad", 0.2):
        grads = ("on", "on", "on", "on", "off", "off_at_caller")
    return Profile(
        mode=mode,
        workers=workers,
        trainers=trainers,
        steps=limits.steps,
        kinds=tuple(kinds),
        calls=tuple(calls),
        references=references,
        nested=chance("nested", 0.3),
        builtin=chance("builtin", 0.2),
        grads=grads,
        hooks=hooks,
        leaf_hooks=chance("leaf hooks", 0.15),
        partial=partial,
        unused=unused,
        faults=faults,
        passes=chance("passes", 0.3),
        remote_roots=chance("remote roots", 0.25),
        optimizer=chance("optimizer", 0.15),
        overlap=chance("overlap", 0.3),
        keep=references and chance("keep", 0.4),
        embedding="embedding" in kinds,
        odd_shapes=chance("odd shapes", 0.25),
    )


def draw_steps(choices: Choices, profile: Profile) -> int:
    """How many steps a trainer has."""
    return min(choices.choice("steps", _STEPS), profile.steps)
