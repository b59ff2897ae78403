"""A program with something left out, as other worlds need it."""

from __future__ import annotations

from dataclasses import replace

from squall.model.program.acts.act import CONTEXT, every
from squall.model.program.program import Program, Step


def in_one_group(program: Program) -> Program:
    """The program without groups after the first: what it computes is the same."""
    if not program.endings:
        return program
    return program.with_steps(lambda step: replace(step, group=0), endings=())


def under_faults(program: Program) -> Program:
    """The program as it runs under faults: without exchanges, and without stories, which come to
    nothing that could be told where something fails. Acts stay that have no contexts, in
    which no pass ends after a call that failed, and no calls without a limit of time."""
    if not program.gathers and not any(step.stories for _, _, step in program.steps):
        return program
    return program.with_steps(_under_faults, gathers=0)


def _under_faults(step: Step) -> Step:
    stories = tuple(
        story
        for story in step.stories
        if story.acts
        and not any(act.kind == CONTEXT or act.limit_s == 0 for act in every(story.acts))
    )
    return step if stories == step.stories else replace(step, stories=stories)
