"""Draws how a step ends: what is summed up, and the backward passes from there."""

from __future__ import annotations

from squall.model.generate.operations import OpsDrawing, Place, reference
from squall.model.one_process.flow import NO_GRAD
from squall.model.program.operations import KINDS
from squall.model.program.program import REFERENCE_CALLS, Backward, Call, Op, Where

_TIMES = (1, 1, 1, 2, 3)


class StepDrawing(OpsDrawing):
    """One step while it is drawn: operations first, then roots, then backward passes."""

    #: bound of a leaf's gradients after all passes
    steepest = 0.0

    def draw_roots(self) -> None:
        """Add the operations that sum everything up, for backward to start from."""
        choices, profile = self.choices, self.profile
        self._roots: list[int] = []
        self.backwards: list[Backward] = []
        ends = self._ends()
        if not ends:
            op = Op(
                kind="scale", inputs=(reference(len(self.sizes), 0, "value"),), worker=self.home
            )
            self.append(op, KINDS["scale"].sizes(1, self.sizes[0]))
            ends = self._ends()
        if self.unused and len(ends) > 1:
            # One that the trainer has: of a result that nobody fetches, nobody can tell when it is
            # there.
            there = [number for number, end in enumerate(ends) if self._is_here(end)]
            if there:
                del ends[choices.choice("unused end", there)]
        groups = 1
        if profile.passes and len(ends) > 1:
            groups = choices.integer("roots", 1, min(3, len(ends)))
        for number in range(groups):
            self._append_root(ends[number::groups])
        if not self.unused:
            self._cover_the_rest()

    def draw_backwards(self) -> None:
        """Draw the backward passes. Each ends, unless the step is to leave something unused."""
        choices, profile, flow = self.choices, self.profile, self.flow
        index = len(self.sizes)
        roots = tuple(index - root for root in self._roots)
        by_reference = len(roots) == 1 and self.ops[-roots[0]].call in REFERENCE_CALLS
        count = 1
        if profile.passes and not self.unused:
            count = choices.integer("backwards", 1, 3)
        passes = 0
        for number in range(count):
            last = number == count - 1
            wheres: list[Where] = ["here"]
            if profile.remote_roots:
                if by_reference:
                    wheres += ["rref", "rref"]
                if last:
                    # The message that carries the roots gets no gradient in a later pass.
                    wheres.append("udf")
            where: Where = choices.pick("where", wheres) if len(wheres) > 1 else "here"
            by_reference = by_reference and where == "rref"
            chosen = roots
            if (
                len(roots) > 1
                and not last
                and where == "here"
                # It would make some gradients undefined, which a hook could tell from zeros.
                and "increment" not in profile.hooks
                and choices.chance("subset", 0.5)
            ):
                chosen = roots[:1]
            times = choices.choice("times", _TIMES) if profile.passes and not self.unused else 1
            backward = Backward(
                roots=chosen,
                times=times,
                retain_graph=not last or choices.chance("retain graph", 0.2),
                where=where,
                worker=choices.pick("worker", range(profile.workers)) if where == "udf" else 0,
            )
            if flow.backward(backward).unfed and not self.unused:
                # Some send function would be left without a gradient.
                backward = Backward(roots=roots, times=times, retain_graph=backward.retain_graph)
                flow.backward(backward)
            self.backwards.append(backward)
            passes += times
        slope = sum(self.sizes[root][0].slope for root in self._roots)
        self.steepest = passes * (slope + self.added * len(self._roots))

    # -- roots ----------------------------------------------------------------------------

    def _ends(self) -> list[Place]:
        """The values that no operation so far takes a gradient to."""
        ends: list[Place] = []
        partial = self.profile.partial
        leaves, home = len(self.leaves), self.home
        for place, made in enumerate(self.flow.values):
            here = made.here
            if place < leaves:
                # The trainer's copy of another worker's leaf came in a message.
                if (
                    here is not None
                    and made.place != home
                    and here[0] != NO_GRAD
                    and not made.here_carried
                ):
                    ends.append((place, 0))
                continue
            if not self.usable[place]:
                continue
            carried = made.carried if here is None else made.here_carried
            found = bool(carried)
            for output, state in enumerate(made.states if here is None else here):
                if state == NO_GRAD or output in carried:
                    continue
                if made.place == home and output in made.carried:
                    continue
                if partial and found and self.choices.chance("left out", 0.5):
                    continue
                found = True
                ends.append((place, output))
        return ends

    def _is_here(self, end: Place) -> bool:
        """Whether the trainer has a value, and has not only a reference to it."""
        return self.flow.values[end[0]].here is not None

    def _append_root(self, ends: list[Place]) -> None:
        choices, profile, home = self.choices, self.profile, self.home
        call: Call = "local"
        worker = home
        if profile.remote_roots and choices.chance("remote root", 0.6):
            call = choices.pick("call", profile.calls)
            if call != "local":
                worker = self.draw_worker("worker")
            if any(p < len(self.leaves) and self.leaves[p].owner == worker for p, _ in ends):
                # The trainer's copy of that leaf is meant; the owner would use its own tensor.
                call, worker = "local", home
        index = len(self.sizes)
        inputs = []
        for place, output in ends:
            by_value = self._is_here((place, output))
            how = "value" if by_value else self.draw_how(place, output, worker)
            inputs.append(reference(index - place, output, how))
        op = Op(kind="total", inputs=tuple(inputs), worker=worker, call=call)
        self._roots.append(index)
        self.append(
            op, KINDS["total"].sizes(1, [self.sizes[place][output] for place, output in ends])
        )

    def _cover_the_rest(self) -> None:
        """Add a root for messages that only outputs which were left out lead to."""
        flow = self.flow
        missing = flow.missing([flow.values[root].states[0] for root in self._roots])
        if not missing:
            return
        ends = []
        for place, made in enumerate(flow.values):
            if place in self._roots or not self.usable[place]:
                continue
            for output, state in enumerate(made.states if made.here is None else made.here):
                if state & missing:
                    ends.append((place, output))
        if ends:
            self._append_root(ends)
