"""Draws the operations of a step.

An operation that would make the step fail or never end is replaced by one close to it: a call that
would leave a message without a gradient becomes a local operation, one that would make integers too
large becomes a multiple by one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from squall.model.generate.hooks import draw_hooks
from squall.model.generate.profiles import Profile
from squall.model.one_process.flow import NO_GRAD, Flow
from squall.model.program.broadcasting import broadcastable
from squall.model.program.choices import Choices
from squall.model.program.dtypes import BITS
from squall.model.program.kind import Kind
from squall.model.program.operations import KINDS
from squall.model.program.program import (
    HELPER_CALLS,
    LAZY_CALLS,
    REFERENCE_CALLS,
    Call,
    Fault,
    Grad,
    Hook,
    How,
    Input,
    Keep,
    Leaf,
    Op,
    Relay,
)
from squall.model.program.sizes import Size

_FACTORS = {"exact": (1, 2, 3, -1, -2), "float": (1, 2, 3)}
_RELAYS: tuple[Relay, ...] = ("pass", "double", "join")
_KEEPS: tuple[Keep, ...] = ("step", "use", "program", "now")
_FAULTS: tuple[Fault, ...] = ("udf", "backward", "hook")
_BUILTIN_CALLS = frozenset({"sync", "async", "remote"})
_DOUBLING_HOOKS = frozenset({"double", "node_pre", "node_post"})
#: how many gradients may meet where their sum is rounded to fewer bits: two have no order
_MOST_GRADIENTS = 2

#: what one value may have at most: elements, and in each mode magnitude and slope
_MOST_ELEMENTS = 24
_MOST = {"exact": 2.0**20, "float": 2.0**6}
_STEEPEST = {"exact": 2.0**28, "float": 2.0**12}

#: where an earlier value is, leaves first, and which of its outputs
Place = tuple[int, int]


class Way(NamedTuple):
    """Where an operation happens, and how each of its inputs gets there."""

    call: Call
    worker: int
    via: tuple[int, ...]
    relay: Relay
    grad: Grad
    hows: list[How]


class OpsDrawing:
    """One step while its operations are drawn.

    ``sizes``: of the leaves. ``usable``: which of them this trainer may use. ``unused``: the
    step is to leave something without a gradient. ``optimizing``: the trainer changes leaves.
    """

    def __init__(
        self,
        choices: Choices,
        profile: Profile,
        leaves: list[Leaf],
        sizes: list[Size],
        *,
        home: int,
        usable: list[bool],
        unused: bool,
        optimizing: bool,
    ) -> None:
        self.choices = choices
        self.profile = profile
        self.leaves = leaves
        self.home = home
        self.unused = unused
        self.ops: list[Op] = []
        self.flow = Flow(home, [(leaf.owner, leaf.requires_grad) for leaf in leaves])
        #: the sizes of the outputs of each value, leaves first
        self.sizes: list[list[Size]] = [[size] for size in sizes]
        #: which values may be used, leaves first; the very first one always
        self.usable = list(usable)
        #: how much hooks of kind ``increment`` may add to a gradient in all
        self.added = 0.0
        self._optimizing = optimizing
        self._faulty = profile.faults and choices.chance("fault in step", 0.6)
        #: whether values may be rounded at all
        self._rounding = profile.mode == "float"
        #: whether a value may have fewer bits than some leaf, and how many gradients it gets
        self._bits = max(BITS[leaf.dtype] for leaf in leaves)
        self._narrow = [BITS[leaf.dtype] < self._bits for leaf in leaves]
        self._gradients = [0] * len(leaves)

    def draw_op(self) -> None:
        """Draw one more operation."""
        choices, profile = self.choices, self.profile
        kind = KINDS[choices.pick("kind", profile.kinds)]
        if kind.takes_table:
            table = len(self.leaves) - 1
            if not self.usable[table]:
                return
            places = [(table, 0)]
        else:
            places = [self._draw_value() for _ in range(kind.least)]
        if self._rounding and self._is_rounded(kind, places):
            kind, places = KINDS["scale"], places[:1]
        way = self._draw_way(kind, places)
        hooks: tuple[Hook, ...] = ()
        if profile.hooks and choices.chance("hook", 0.3):
            hooks = draw_hooks(choices, "hook", profile.hooks)
        fault: Fault | None = None
        if self._faulty and choices.chance("fault", 0.4):
            fault = choices.choice("fault", _FAULTS)
            self._faulty = False
        builtin = (
            profile.builtin
            and kind.builtin is not None
            and way.call in _BUILTIN_CALLS
            and not (way.via or hooks or fault is not None or way.grad == "off")
            and all(how == "value" for how in way.hows)
            and (len(places) == 1 or self._broadcasts(places))
            and choices.chance("builtin", 0.5)
        )
        keep: Keep = "step"
        if profile.keep and way.call in REFERENCE_CALLS and fault is None:
            keep = self._draw_keep(places, way.hows, way.worker, builtin)
        index = len(self.sizes)
        op = Op(
            kind=kind.name,
            inputs=tuple(
                reference(index - place, output, how)
                for (place, output), how in zip(places, way.hows, strict=True)
            ),
            worker=way.worker,
            call=way.call,
            via=way.via,
            relay=way.relay,
            builtin=builtin,
            grad=way.grad,
            factor=self._draw_factor(kind),
            dtype=choices.choice("dtype", profile.dtypes) if kind.takes_dtype else "float64",
            keep=keep,
            hooks=hooks,
            fault=fault,
        )
        self._append_small(op, places)

    def _draw_way(self, kind: Kind, places: list[Place]) -> Way:
        """Draw where an operation happens, and how its inputs get there."""
        choices, profile, home = self.choices, self.profile, self.home
        call: Call = choices.pick("call", profile.calls)
        # Drawn for a local one too: a driver that shrinks replays the same number of choices.
        worker = self.draw_worker("worker")
        if call == "local":
            worker = home
        grad: Grad = choices.pick("grad", profile.grads) if len(profile.grads) > 1 else "on"
        hows = [self.draw_how(place, output, worker) for place, output in places]
        via, relay = self._draw_relays(kind, call, places)
        if grad == "off_at_caller" and (via or call in REFERENCE_CALLS):
            grad = "off"
        cuts = bool(kind.cuts) and not all(map(kind.passes_gradients_to, range(len(places))))
        # If the operation would leave a recorded message without a gradient, it is local instead.
        if (cuts or grad != "on") and not (self.unused and choices.chance("cut off", 0.5)):
            if self._cuts_off_a_message(kind, places, hows, worker, grad):
                call, worker, via, relay = "local", home, (), "pass"
                hows = ["value"] * len(hows)
        elif self.unused and call in LAZY_CALLS and cuts:
            hows = ["value"] * len(hows)
        return Way(call, worker, via, relay, grad, hows)

    # -- what a call is made of -----------------------------------------------------------

    def draw_worker(self, name: str) -> int:
        """A worker, the trainer's own first."""
        workers = self.profile.workers
        order = (*range(self.home, workers), *range(self.home))
        worker: int = self.choices.pick(name, order)
        return worker

    def _draw_value(self) -> Place:
        here = len(self.sizes)
        place = here - self.choices.integer("back", 1, here)
        while not self.usable[place] or (
            self._narrow[place]
            and place >= len(self.leaves)
            and self._gradients[place] >= _MOST_GRADIENTS
        ):
            place -= 1
        outputs = len(self.sizes[place])
        return place, self.choices.integer("output", 0, outputs - 1) if outputs > 1 else 0

    def draw_how(self, place: int, output: int, worker: int) -> How:
        """How a value gets to a worker."""
        if not self.profile.references:
            return "value"
        if place < len(self.leaves):
            if self.leaves[place].owner == worker:
                return "value"
        else:
            if self.ops[place - len(self.leaves)].call not in REFERENCE_CALLS:
                return "value"
            states = self.flow.values[place].states
            if len(states) > 1 and states[output] == NO_GRAD:
                return (
                    "value"  # the other output, fetched in the same message, would get no gradient
                )
        if not self.choices.chance("by reference", 0.5):
            return "value"
        return "kept_rref" if self.choices.chance("kept there", 0.15) else "rref"

    def _draw_relays(
        self, kind: Kind, call: Call, places: list[Place]
    ) -> tuple[tuple[int, ...], Relay]:
        if not self.profile.nested or call == "local" or call in HELPER_CALLS:
            return (), "pass"
        hops = self.choices.integer("depth", 0, 3)
        if not hops:
            return (), "pass"
        via = tuple(self.draw_worker("via") for _ in range(hops))
        relay: Relay = self.choices.choice("relay", _RELAYS)
        if kind.takes_table and relay == "double":
            relay = "pass"
        if relay == "join" and any(self._narrow[place] for place, _ in places):
            relay = "pass"
        return via, relay

    def _draw_factor(self, kind: Kind) -> int:
        if kind.factor == "none":
            return 1
        factor: int = self.choices.choice("factor", _FACTORS[self.profile.mode])
        return abs(factor) if kind.factor == "positive" else factor

    def _draw_keep(self, places: list[Place], hows: list[How], worker: int, builtin: bool) -> Keep:
        keep: Keep = self.choices.choice("keep", _KEEPS)
        if keep == "program" and self._optimizing:
            return "step"  # it may share memory with a leaf that the optimizer changes
        if keep == "now" and (worker == self.home or self._records(places, hows, worker, builtin)):
            return "use"
        return keep

    # -- what must not happen -------------------------------------------------------------

    def _records(
        self, places: list[Place], hows: list[How], worker: int, builtin: bool = False
    ) -> bool:
        """Whether handing over these inputs records a message."""
        values = self.flow.values
        for (place, output), how in zip(places, hows, strict=True):
            made = values[place]
            if how != "value":
                if made.place != worker and any(state != NO_GRAD for state in made.states):
                    return True
            elif place >= len(self.leaves) or builtin or made.place != worker:
                states = made.states if made.here is None else made.here
                if states[output] != NO_GRAD:
                    return True
        return False

    def _cuts_off_a_message(
        self, kind: Kind, places: list[Place], hows: list[How], worker: int, grad: Grad
    ) -> bool:
        if grad == "off_at_caller":
            return any(
                how != "value" and self._records([place], [how], worker)
                for place, how in zip(places, hows, strict=True)
            )
        if not self._records(places, hows, worker):
            return False
        if grad == "on" and all(how == "value" for how in hows):
            # All inputs come in one message, for which the gradient of one of them is enough.
            fed = [place for at, place in enumerate(places) if kind.passes_gradients_to(at)]
            return not self._records(fed, hows[: len(fed)], worker)
        return True

    def _is_rounded(self, kind: Kind, places: list[Place]) -> bool:
        """Whether the operation would let many gradients meet in few bits.

        Of three numbers the rounded sum depends on the order, and a tolerance for the leaf
        behind it knows nothing of that.
        """
        leaves = len(self.leaves)
        more: dict[int, int] = {}
        for at, (place, _) in enumerate(places):
            if place >= leaves and self._narrow[place]:
                more[place] = more.get(place, 0) + kind.gradients_of(at)
        return any(
            self._gradients[place] + count > _MOST_GRADIENTS for place, count in more.items()
        )

    def _broadcasts(self, places: list[Place]) -> bool:
        (a, i), (b, j) = places
        return broadcastable(self.sizes[a][i].shape, self.sizes[b][j].shape)

    # -- adding it ------------------------------------------------------------------------

    def append(self, op: Op, results: list[Size]) -> None:
        """Add an operation whose results have these sizes."""
        self.flow.add(op)
        index = len(self.sizes)
        self.ops.append(op)
        self.sizes.append(results)
        self.usable.append(op.keep != "now")
        kind = KINDS[op.kind]
        narrow = False
        if self._rounding:
            for at, input in enumerate(op.inputs):
                place = index - input.back
                self._gradients[place] += kind.gradients_of(at)
                narrow = narrow or self._narrow[place]
            if kind.takes_dtype:
                narrow = BITS[op.dtype] < self._bits
        self._narrow.append(narrow)
        self._gradients.append(0)

    def _append_small(self, op: Op, places: list[Place]) -> None:
        results = self._sizes_of(op, places)
        if self._too_large(results):
            # The same call of what makes nothing larger; only relays may still double it.
            op = _scaling(op)
            results = self._sizes_of(op, places[:1])
        hooked = _with_hooks(results, op.hooks)
        if len(op.hooks) > 1 and self._too_large(hooked):
            op = replace(op, hooks=op.hooks[:1])
            hooked = _with_hooks(results, op.hooks)
        # What one of them adds may be doubled by those behind it.
        self.added += op.hooks.count("increment") * hooked[0].elements * hooked[0].slope
        self.append(op, hooked)

    def _sizes_of(self, op: Op, places: list[Place]) -> list[Size]:
        inputs = [self.sizes[place][output] for place, output in places]
        if op.relay == "double":
            factor = 2.0 ** len(op.via)
            inputs = [x._replace(most=x.most * factor, slope=x.slope * factor) for x in inputs]
        results = KINDS[op.kind].sizes(op.factor, inputs)
        if op.relay == "join":
            # What is joined is the first input that travels; any of them may be that one.
            most = len(op.via) * sum(x.elements * x.most for x in inputs)
            slope = len(op.via) * sum(x.elements * x.slope for x in inputs)
            first = results[0]
            results[0] = first._replace(most=first.most + most, slope=first.slope + slope)
        return results

    def _too_large(self, results: list[Size]) -> bool:
        most, steepest = _MOST[self.profile.mode], _STEEPEST[self.profile.mode]
        for _, elements, magnitude, slope in results:
            if elements > _MOST_ELEMENTS or magnitude > most or slope > steepest:
                return True
        return False


def _with_hooks(results: list[Size], hooks: tuple[Hook, ...]) -> list[Size]:
    factor = 2.0 ** sum(hook in _DOUBLING_HOOKS for hook in hooks)
    return [x._replace(slope=x.slope * factor) for x in results]


def _scaling(op: Op) -> Op:
    """The same call of an operation that leaves its first input as it is."""
    return Op(
        kind="scale",
        inputs=op.inputs[:1],
        worker=op.worker,
        call=op.call,
        via=op.via,
        grad=op.grad,
        keep=op.keep,
        hooks=tuple(hook for hook in op.hooks if hook == "look"),
        fault=op.fault,
    )


_INPUTS: dict[tuple[int, int, str], Input] = {}


def reference(back: int, output: int, how: How) -> Input:
    """An input; equal ones are the same object, since most are."""
    key = (back, output, how)
    found = _INPUTS.get(key)
    if found is None:
        found = _INPUTS[key] = Input(back, output, how)
    return found
