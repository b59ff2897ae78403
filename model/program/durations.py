"""How long user code of a program waits by itself, in seconds of virtual time."""

from __future__ import annotations

from squall.model.program.acts.expected import told_alone
from squall.model.program.program import Program, beside


def sleeps(program: Program) -> bool:
    """Whether user code sleeps in backward passes of a program."""
    return any(leaf.sleep is not None for leaf in program.leaves) or any(
        op.sleep is not None for _, _, step in program.steps for op in step.ops
    )


def slept_s(program: Program) -> float:
    """Seconds that user code of a program sleeps, or waits to begin a pass or to leave a group, at
    most."""
    total = sum(sum(leaf.sleep.seconds) for leaf in program.leaves if leaf.sleep is not None)
    for _, _, step in program.steps:
        once = sum(sum(op.sleep.seconds) for op in step.ops if op.sleep is not None)
        once += sum(back.times * (back.every_s or 0.0) for back in step.backwards)
        total += once * (2 if step.retry else 1)
    total += sum(ending.quiet_s for ending in program.endings)
    return total


def beside_s(program: Program) -> float:
    """Seconds that what goes on beside the steps of a program may take at most, but for acts."""
    return sum(thing.longest_s for _, _, step in program.steps for _, _, thing in beside(step))


def acts_s(program: Program) -> float:
    """Seconds that acts of stories of a program take, one story after the other."""
    return sum(
        told_alone(story.acts, trainer.worker).seconds
        for trainer in program.trainers
        for step in trainer.steps
        for story in step.stories
        if story.acts
    )
