"""What a rule may ask about a scenario: its program, and what both engines came to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from torch import Tensor

from squall.model.one_process.flow import Sent, flow_of, forecast
from squall.model.one_process.interpreter import interpret
from squall.model.one_process.outcome import Outcome
from squall.model.program.acts.act import Act, every
from squall.model.program.compare import compare, to_dense
from squall.model.program.operations import planted
from squall.model.program.program import REFERENCE_CALLS, Op, Program, Step
from squall.model.program.stories import AS_IT_SHOULD_BE, RAISED, Story
from squall.model.program.stories import expected as expected_line
from squall.sim.diff.difference import Difference
from squall.sim.diff.facts import (
    A_VALUE,
    ABSENT,
    ENDS,
    NO_END,
    NONE,
    Facts,
    Place,
    value_of,
)
from squall.sim.diff.tensors import tolerance_of
from squall.sim.scenario import World

Key = tuple[int, int]
#: what the port says of gradients that come after their pass has failed
PASS_IS_OVER = "belong to is over"
#: stories in which something is to fail
FAILING = frozenset(
    {
        "unreadable argument",
        "unwritable",
        "failed pass again",
        "overtaken pass",
        "freed graph",
        "second pass",
        "released by a hook",
        "released meanwhile",
        "stop at an error",
        "late error",
        "operator error",
        "timeout",
        "late creation",
        "late reference",
    }
)


def bare_text(text: str) -> str:
    """An error's text without the workers that it came through."""
    return re.sub(
        r"^(Error on Node \d+: |(\w+: )?On WorkerInfo\(id=\d+, name=worker\d+\): )*", "", text
    )


class Case:
    """One scenario, as rules see it."""

    def __init__(
        self,
        program: Program,
        expected: Outcome,
        port: Facts,
        torch: Facts,
        without: Facts,
        open_from: Mapping[Key, int],
        *,
        world: World,
    ) -> None:
        #: whether workers shut down while others are at work
        self.early = world.shut_down_early
        self.faulty = bool(world.faults)
        #: steps in which a pass failed on an engine, from that one on (sim/diff/undefined.py)
        self.open_from = open_from
        self.program = program
        self.expected = expected
        #: that with torch's quirks, and where they make a difference what it comes to without them
        self.port = port
        self.without = without
        self.torch = torch

    # -- what the program says ----------------------------------------------------------------

    def step(self, key: Key) -> Step:
        return self.program.trainers[key[0]].steps[key[1]]

    def home(self, key: Key) -> int:
        return self.program.trainers[key[0]].worker

    def has(self, key: Key | None, test: Callable[[Op], bool]) -> bool:
        return key is not None and any(test(op) for op in self.step(key).ops)

    def comes_home(self, key: Key) -> bool:
        """Whether a reference comes back to its owner by way of another worker, perhaps before its value is made."""
        home = self.home(key)
        return self.has(
            key,
            lambda op: op.call in REFERENCE_CALLS and bool(op.via) and op.worker in (*op.via, home),
        )

    @cached_property
    def cut_short(self) -> Outcome:
        """What one process comes to where steps that end early on torch alone, or never, change nothing."""
        ended = {key for key in self.keys if self._ends_early(key)}
        trainers = tuple(
            replace(
                trainer,
                steps=tuple(
                    replace(step, optimize=step.optimize and (number, at) not in ended)
                    for at, step in enumerate(trainer.steps)
                ),
            )
            for number, trainer in enumerate(self.program.trainers)
        )
        return interpret(replace(self.program, trainers=trainers))

    def _ends_early(self, key: Key) -> bool:
        ours, theirs = (value_of(facts, ("outcome", *key)) for facts in self._both)
        return bool(ours == A_VALUE != theirs)

    @cached_property
    def keys(self) -> list[Key]:
        return [(trainer, number) for trainer, number, _ in self.program.steps]

    @cached_property
    def stories(self) -> list[tuple[int, Story]]:
        """(the trainer's worker, story) of all stories."""
        return [
            (self.program.trainers[trainer].worker, story)
            for trainer, _, step in self.program.steps
            for story in step.stories
        ]

    @cached_property
    def acts(self) -> list[Act]:
        """All acts of all stories, those inside others included."""
        return [act for _, story in self.stories for act in every(story.acts)]

    def by_proxy(self, key: Key) -> int:
        """How many calls go through helpers of references beside a step, but for its stories."""
        step = self.step(key)
        chains = sum(
            chain.ending.startswith("proxy")
            + sum({"proxy": 1, "store": 2}.get(link.kind, 0) for link in chain.links)
            for chain in step.chains
        )
        cargoes = sum(cargo.call.startswith("proxy") for cargo in step.cargoes)
        updates = sum(each.steps * len(each.trainers) + 2 for each in step.updates)
        return chains + cargoes + updates

    def story(self, place: Place) -> Story:
        return self.step((place[1], place[2])).stories[place[3]]

    def may_fail(self, key: Key) -> bool:
        """Whether something of a step fails: on an engine, or as planned."""
        step = self.step(key)
        return (
            any(op.fault is not None for op in step.ops)
            or any(story.kind in FAILING for story in step.stories)
            or any(value_of(facts, ("outcome", *key)) != A_VALUE for facts in self._both)
            or bool(forecast(self.program, *key).unfed)
        )

    @cached_property
    def anything_fails(self) -> bool:
        return any(self.may_fail(key) for key in self.keys)

    # -- what the engines say -----------------------------------------------------------------

    @property
    def _both(self) -> tuple[Facts, Facts]:
        return (self.port, self.torch)

    def left(self, worker: int, counter: str) -> int:
        """What is left, or counted where the run hangs, in torch."""
        found: int = value_of(self.torch, ("left", worker, counter))
        return found

    @property
    def more_forks(self) -> int:
        """How many more forks are left in torch, none of which has been deleted."""
        forks = [("left", worker, "num_forks") for worker in range(self.program.workers)]
        return int(sum(value_of(self.torch, at) - value_of(self.port, at) for at in forks))

    def unanswered(self, worker: int, type: str) -> int:
        found: int = value_of(self.torch, ("unanswered", type, worker))
        return found

    def requests(self, type: str) -> int:
        """How many more requests of a type the port made."""
        ours, theirs = (
            sum(n for place, n in facts.items() if place[:2] == ("requests", type))
            for facts in self._both
        )
        return int(ours - theirs)

    def more(self, kind: str, type: str) -> int:
        """How many more messages of a kind and type torch has than the port without quirks."""
        places = {
            place
            for facts in (self.port, self.torch, self.without)
            for place in facts
            if place[:2] == (kind, type)
        }
        return sum(
            value_of(self.torch, at) - self.without.get(at, value_of(self.port, at))
            for at in places
        )

    def trace(self, *place: Any) -> int:
        """How often torch did what a rule asks for (sim/diff/traces.py)."""
        found: int = self.torch.get(place, 0)
        return found

    @property
    def ends(self) -> bool:
        return bool(value_of(self.torch, ("hang",)) == ENDS)

    @property
    def port_hangs(self) -> bool:
        return bool(value_of(self.port, ("hang",)) != ENDS)

    @property
    def dead(self) -> list[int]:
        """The workers of torch whose process died."""
        return [place[1] for place in self.torch if place[0] == "death"]

    @property
    def dies(self) -> bool:
        return bool(self.dead)

    def waits(self, trainer: int) -> bool:
        """Whether a step of the trainer, or a story of one, does not end in torch."""
        return any(
            value == NO_END and place[0] in ("outcome", "story") and place[1] == trainer
            for place, value in self.torch.items()
        )

    @cached_property
    def without_end(self) -> list[Place]:
        """The steps, stories and other things beside steps that do not end, or begin, in torch alone."""
        return [
            place
            for place, value in self.torch.items()
            if place[0] in ("outcome", "story", "beside")
            and value == NO_END != value_of(self.port, place)
        ]

    @property
    def waiting_trainers(self) -> list[int]:
        return sorted({place[1] for place in self.without_end if place[0] != "beside"})

    def never_ends(self, difference: Difference) -> bool:
        """Whether torch's side is that a step or a story does not end, and the run shows it: it
        hangs, and the step's context is still there, or it comes after a story that does not end; or
        a process died."""
        if difference.theirs != NO_END or (self.ends and not self.dies):
            return False
        if difference.place[0] != "outcome" or self.dies or difference.step is None:
            return True
        if self.left(self.home(difference.step), "num_autograd_contexts") > 0:
            return True
        trainer, number = difference.step
        return any(
            place[0] == "story" and place[1] == trainer and place[2] < number and value == NO_END
            for place, value in self.torch.items()
        )

    # -- what the port must have ----------------------------------------------------------------

    def port_is_right(self, difference: Difference) -> bool:
        """Whether the port's side is what one process comes to, so far as that says: no rule
        excuses the port."""
        kind, *rest = difference.place
        ours = self.without.get(difference.place, difference.ours)
        if kind in ("left", "death", "torn"):
            return bool(ours == ABSENT[kind]) or self.port_hangs
        if kind in ("unanswered", "replies"):
            lost: int = self.port.get(("lost call",), 0)
            return bool(ours <= lost) or self.port_hangs
        if kind == "hang":
            return bool(ours == ENDS) or any(
                forecast(self.program, *key).unfed for key in self.keys
            )
        if kind == "story":
            line = expected_line(self.story(difference.place), self.home((rest[0], rest[1])))
            return bool(ours == line) or self._waits_on_port(rest[0])
        if kind == "beside":
            may_raise = self.faulty and str(ours).startswith(RAISED)
            return ours == AS_IT_SHOULD_BE or may_raise or self._waits_on_port(rest[0])
        if difference.step is None or difference.step not in self.expected.steps:
            return True
        if forecast(self.program, *difference.step).unfed:
            return True
        if kind not in ("outcome", "first error") and self._waits_on_port(rest[0]):
            return True
        if ours == NO_END:
            # It waits for ever: as planned, or behind a step that does.
            trainer, number = difference.step
            return any(forecast(self.program, trainer, n).unfed for n in range(number))
        step = self.expected.steps[difference.step]
        if kind == "failed":
            return True
        if kind in ("outcome", "first error"):
            said = step.error if kind == "outcome" else step.first_error
            return self._may_say(difference.step, str(ours), said)
        if step.error is not None:
            return True
        if kind == "passes":
            return bool(ours == len(step.passes))
        if kind == "gradient":
            number, leaf = rest[2:]
            grads = step.passes[number] if number < len(step.passes) else {}
            return not self._differs(grads.get(leaf), ours)
        return kind != "root" or not self._differs(step.roots.get(rest[2]), ours)

    def gradient_messages(self, key: Key) -> int:
        """How many messages with gradients all passes of a step send."""
        step = self.step(key)
        flow = flow_of(self.program, key[0], step)
        sent = sum(1 << bit for bit, mark in enumerate(flow.marks, 1) if isinstance(mark, Sent))
        return sum(
            backward.times * (flow.fed(backward)[1] & sent).bit_count()
            for backward in step.backwards
        )

    def _waits_on_port(self, trainer: int) -> bool:
        return any(
            place[0] == "outcome"
            and place[1] == trainer
            and self.without.get(place, value) == NO_END
            for place, value in self.port.items()
        )

    def _may_say(self, key: Key, ours: str, expected: str | None) -> bool:
        """Whether an end is the one of one process; of several errors it may be any."""
        if expected is None:
            return ours in (A_VALUE, NONE)
        bare = bare_text(ours)
        if bare == expected or bare.startswith("PlantedError: On WorkerInfo("):
            return True
        ops = self.step(key).ops
        if PASS_IS_OVER in bare:  # by an error elsewhere, which somebody else was told
            return any(op.fault for op in ops)
        return any(op.fault and bare == planted(op.fault, *key, n) for n, op in enumerate(ops))

    def is_cut_short(self, difference: Difference) -> bool:
        """Whether torch's value is the one of :attr:`cut_short`."""
        kind, *rest = difference.place
        if kind == "leaf":
            return not self._differs(self.cut_short.leaves[rest[0]], difference.theirs)
        step = self.cut_short.steps.get((rest[0], rest[1]))
        if kind == "root":
            return step is not None and not self._differs(
                step.roots.get(rest[2]), difference.theirs
            )
        if kind != "gradient" or step is None or rest[2] >= len(step.passes):
            return False
        return not self._differs(step.passes[rest[2]].get(rest[3]), difference.theirs)

    def _differs(self, expected: Tensor | None, ours: Tensor | None) -> bool:
        if expected is None or ours is None:
            only = expected if expected is not None else ours
            return only is not None and bool(to_dense(only).any())
        if expected.dtype != ours.dtype or expected.layout != ours.layout:
            return True
        return compare(ours, expected, tolerance=tolerance_of(ours)).complaint is not None


Predicts = Callable[[Case, Difference], bool]
