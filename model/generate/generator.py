"""Draws programs.

Programs are valid by construction. All that a step computes reaches a root of its backward
passes, unless the program is to have an unused output; so every pass ends, every recorded message
is answered by a gradient, and in mode exact all integers stay below 2**53.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from squall.model.generate.acts import draw_acts
from squall.model.generate.concurrent import draw_beside
from squall.model.generate.hooks import draw_hooks
from squall.model.generate.profiles import Limits, Profile, draw_profile
from squall.model.generate.roots import StepDrawing
from squall.model.generate.sleeps import with_sleeps
from squall.model.program.choices import Choices
from squall.model.program.dtypes import BITS
from squall.model.program.program import (
    Dtype,
    Ending,
    Leaf,
    LeafHook,
    Optimizer,
    Program,
    Step,
    Trainer,
    beside,
)
from squall.model.program.sizes import Size, size
from squall.model.program.stories import ACTS, ALONE, RARE, SIZED, Story, ranges_of
from squall.model.program.stories import DRAWN as STORIES

_SHAPES: tuple[tuple[int, ...], ...] = ((2,), (3,), (2, 3), (3, 2), ())
_ODD_SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (0,), (2, 1), (0, 2), (1, 3))
_LEAF_HOOKS: tuple[LeafHook, ...] = (
    "look",
    "double",
    "accumulate_pre",
    "accumulate_post",
    "post_accumulate",
    "increment",
)
_LARGEST_LEAF = {"exact": 3.0, "float": 2.0}
_LR = {"exact": 1.0, "float": 0.25}
#: how many programs of one step have a story that needs the group for itself
_ALONE = 0.06
#: stories beside one step, at most
_MOST_STORIES = 1
_MOST_SIZED_STORIES = 3
#: how many steps of a program with acts have some
_WITH_ACTS = 0.6
_MOST_GATHERS = 3
#: seconds that a worker waits for others at most as it leaves a group, far more than it needs; 0:
#: without a limit
_LEAVE_S = (0.0, 1000.0)
#: seconds after which nothing is under way any more
_QUIET_S = 60.0
#: the largest gradient with which an optimizer may take a step
_MOST_STEPPED = 2.0**10


def generate(choices: Choices, limits: Limits | None = None) -> Program:
    """Draw a program."""
    if limits is None:
        limits = Limits()
    return _ProgramDrawing(choices, limits).draw()


def _has_one_step(program: Program) -> bool:
    """Whether a program has one step, which comes to an end, and nothing beside it."""
    steps = [step for _, _, step in program.steps]
    return len(steps) == 1 and not (program.gathers or program.endings or beside(steps[0]))


class _ProgramDrawing:
    """A program while it is drawn."""

    def __init__(self, choices: Choices, limits: Limits) -> None:
        self.choices = choices
        self.limits = limits
        self.profile: Profile = draw_profile(choices, limits)
        self.leaves: list[Leaf] = []
        #: by leaf: the one trainer that may use it, because its optimizer changes it
        self.private: dict[int, int] = {}

    def draw(self) -> Program:
        choices, profile = self.choices, self.profile
        for number in range(choices.integer("leaves", 1, profile.leaves)):
            self.leaves.append(choices.group("leaf", partial(self._draw_leaf, number)))
        if profile.embedding:
            self.leaves.append(choices.group("leaf", self._draw_embedding))
        if profile.optimizer:
            self._draw_private()
        program = Program(
            workers=profile.workers,
            leaves=tuple(self.leaves),
            trainers=tuple(
                choices.group("trainer", partial(self._draw_trainer, number))
                for number in range(profile.trainers)
            ),
            mode=profile.mode,
            gathers=choices.integer("gathers", 0, _MOST_GATHERS) if profile.gathers else 0,
            endings=tuple(
                choices.group("ending", self._draw_ending) for _ in range(profile.groups - 1)
            ),
        )
        if self.limits.stories and choices.chance("story alone", _ALONE) and _has_one_step(program):
            program = self._with_story_alone(program)
        # Last, so that the rest of a seed's program is what it is without; an optimizer would take
        # its step from what passes that failed have left.
        calm = profile.unused or any(trainer.optimizer for trainer in program.trainers)
        return with_sleeps(choices, program) if self.limits.sleeps and not calm else program

    def _with_story_alone(self, program: Program) -> Program:
        (trainer,) = program.trainers
        story = self.choices.group("story alone", partial(self._draw_story, trainer.worker, ALONE))
        return program.with_steps(lambda step: replace(step, stories=(story,)))

    def _draw_leaf(self, number: int) -> Leaf:
        choices, profile = self.choices, self.profile
        shapes = _SHAPES + _ODD_SHAPES if profile.odd_shapes else _SHAPES
        hooks: tuple[LeafHook, ...] = ()
        # Every trainer may use leaf 0, which always requires grad. It makes the same choices as
        # the others, so that a driver that shrinks can cut any leaf out.
        grad = not choices.chance("without grad", 0.2) or number == 0
        if profile.leaf_hooks and grad and choices.chance("leaf hook", 0.5):
            usable = _LEAF_HOOKS if "increment" in profile.hooks else _LEAF_HOOKS[:-1]
            hooks = draw_hooks(choices, "leaf hook", usable)
        return Leaf(
            owner=choices.pick("owner", range(profile.workers)),
            shape=choices.pick("shape", shapes),
            dtype="float64" if profile.mode == "exact" else choices.choice("dtype", profile.dtypes),
            requires_grad=grad,
            seed=choices.integer("seed", 0, 6),
            hooks=hooks,
        )

    def _draw_embedding(self) -> Leaf:
        choices, profile = self.choices, self.profile
        hooks: tuple[LeafHook, ...] = ()
        if profile.leaf_hooks and choices.chance("leaf hook", 0.5):
            hooks = draw_hooks(choices, "leaf hook", _LEAF_HOOKS[:2])
        dtype: Dtype = "float64"
        if profile.mode == "float":
            dtype = choices.choice("dtype", ("float32", "float64"))
        return Leaf(
            owner=choices.pick("owner", range(profile.workers)),
            shape=(choices.integer("rows", 2, 4), 2),
            dtype=dtype,
            kind="embedding",
            seed=choices.integer("seed", 0, 6),
            hooks=hooks,
        )

    def _draw_private(self) -> None:
        choices = self.choices
        bits = max(BITS[leaf.dtype] for leaf in self.leaves)
        for number, leaf in enumerate(self.leaves):
            # What is rounded to fewer bits would not be the same in the next step.
            usable = number and leaf.requires_grad and BITS[leaf.dtype] == bits
            if usable and choices.chance("optimized", 0.6):
                self.private[number] = choices.pick("optimized by", range(self.profile.trainers))

    def _draw_trainer(self, number: int) -> Trainer:
        choices, profile = self.choices, self.profile
        home = choices.pick("trainer", range(profile.workers))
        own = tuple(leaf for leaf, owner in self.private.items() if owner == number)
        usable = [self.private.get(leaf, number) == number for leaf in range(len(self.leaves))]
        sizes = []
        for leaf in self.leaves:
            doubled = leaf.hooks.count("double") + leaf.hooks.count("accumulate_pre")
            sizes.append(size(leaf.shape, _LARGEST_LEAF[profile.mode], 2.0**doubled))
        each = choices.choice("steps", profile.steps)
        count = each * profile.groups
        overlap = profile.overlap and count > 1 and not own and choices.chance("overlap", 0.5)
        steps = []
        for step in range(count):
            # After a step that never ends there is nothing to see.
            unused = (
                profile.unused
                and number == profile.trainers - 1
                and step == count - 1
                and not overlap
            )
            draw_step = partial(self._draw_step, home, own, usable, sizes, unused)
            drawn = choices.group("step", draw_step)
            steps.append(replace(drawn, group=step // each) if step >= each else drawn)
        return Trainer(
            worker=home,
            steps=tuple(steps),
            overlap=overlap,
            optimizer=Optimizer(leaves=own, lr=_LR[profile.mode]) if own else None,
        )

    def _draw_step(
        self,
        home: int,
        own: tuple[int, ...],
        usable: list[bool],
        sizes: list[Size],
        unused: bool,
    ) -> Step:
        """Draw a step; one with an optimizer step changes ``sizes``, of the leaves."""
        choices, profile = self.choices, self.profile
        drawing = StepDrawing(
            choices,
            profile,
            self.leaves,
            sizes,
            home=home,
            usable=usable,
            unused=unused,
            optimizing=bool(own),
        )
        for _ in range(choices.integer("ops", 1, profile.ops)):
            choices.group("op", drawing.draw_op)
        drawing.draw_roots()
        drawing.draw_backwards()
        optimize = (
            bool(own)
            and not unused
            and drawing.steepest <= _MOST_STEPPED
            and choices.chance("optimizer step", 0.7)
        )
        if optimize:
            moved = _LR[profile.mode] * drawing.steepest
            for leaf in own:
                sizes[leaf] = sizes[leaf]._replace(most=sizes[leaf].most + moved)
        faulty = any(op.fault for op in drawing.ops)
        stories: list[Story] = []
        if profile.stories:
            for _ in range(choices.integer("stories", 0, _MOST_STORIES)):
                stories.append(choices.group("story", partial(self._draw_story, home, STORIES)))
        if profile.sized_stories:
            for _ in range(choices.integer("sized stories", 0, _MOST_SIZED_STORIES)):
                stories.append(choices.group("sized story", partial(self._draw_sized_story, home)))
        if profile.wide_stories:
            stories.append(choices.group("wide story", partial(self._draw_story, home, RARE)))
        if profile.acts and choices.chance("with acts", _WITH_ACTS):
            stories.append(choices.group("acts", partial(self._draw_acts, home)))
        return Step(
            ops=tuple(drawing.ops),
            backwards=tuple(drawing.backwards),
            optimize=optimize,
            retry=faulty and choices.chance("retry", 0.5),
            profiled=profile.profiled and choices.chance("profiled", 0.7),
            stories=tuple(stories),
            **draw_beside(choices, profile.beside, self._workers(home), profile.ops),
        )

    def _draw_ending(self) -> Ending:
        choices = self.choices
        return Ending(
            graceful=not choices.chance("abrupt", 0.4),
            timeout_s=choices.choice("time limit", _LEAVE_S),
            quiet_s=0.0 if choices.chance("at once", 0.5) else _QUIET_S,
            keeps=choices.chance("keeps", 0.5),
        )

    def _draw_story(self, home: int, kinds: Sequence[str]) -> Story:
        choices = self.choices
        return Story(
            kind=choices.pick("story", kinds),
            worker=choices.pick("worker", self._workers(home)),
            before=choices.integer("before", 0, self.profile.ops),
        )

    def _draw_sized_story(self, home: int) -> Story:
        choices, workers = self.choices, self.profile.workers
        kind = choices.pick("story", SIZED)
        return Story(
            kind=kind,
            worker=choices.pick("worker", [*range(home, workers), *range(home)]),
            before=choices.integer("before", 0, self.profile.ops),
            numbers=tuple(choices.integer(name, *span) for name, span in ranges_of(kind).items()),
        )

    def _draw_acts(self, home: int) -> Story:
        choices = self.choices
        return Story(
            kind=ACTS,
            worker=home,
            before=choices.integer("before", 0, self.profile.ops),
            acts=draw_acts(choices, home, self.profile.workers, self.profile.calm),
        )

    def _workers(self, home: int) -> list[int]:
        """All workers, ``home`` first."""
        return [*range(home, self.profile.workers), *range(home)]
