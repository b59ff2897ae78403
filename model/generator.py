"""Draws programs.

Programs are valid by construction. All that a step computes reaches a root of its backward
passes, unless the program is to have an unused output; so every pass ends, every recorded message
is answered by a gradient, and in mode exact all integers stay below 2**53.
"""

from __future__ import annotations

from model.choices import Choices
from model.flow import NO_GRAD, Flow
from model.operations import KINDS, broadcastable
from model.profiles import Limits, Profile, draw_profile, draw_steps
from model.program import (
    HELPER_CALLS,
    LAZY_CALLS,
    REFERENCE_CALLS,
    Backward,
    Call,
    Dtype,
    Fault,
    Grad,
    Hook,
    How,
    Input,
    Keep,
    Leaf,
    LeafHook,
    Op,
    Optimizer,
    Program,
    Relay,
    Step,
    Trainer,
    Where,
)
from model.sizes import RULES, Size, size

_SHAPES: tuple[tuple[int, ...], ...] = ((2,), (3,), (2, 3), (3, 2), ())
_ODD_SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (0,), (2, 1), (0, 2), (1, 3))
_DTYPES: tuple[Dtype, ...] = ("float32", "float32", "float64", "bfloat16", "complex64")
_LEAF_HOOKS: tuple[LeafHook, ...] = (
    "look",
    "double",
    "accumulate_pre",
    "accumulate_post",
    "post_accumulate",
    "increment",
)
_FACTORS = (1, 2, 3, -1, -2)
_RELAYS: tuple[Relay, ...] = ("pass", "double", "join")
_KEEPS: tuple[Keep, ...] = ("step", "use", "program", "now")
_FAULTS: tuple[Fault, ...] = ("udf", "backward", "hook")
_TIMES = (1, 1, 1, 2, 3)
_BUILTIN_CALLS = frozenset({"sync", "async", "remote"})
_SLOPING_HOOKS = frozenset({"double", "node_pre", "node_post"})

#: operations that take no gradient to some input at all
_CUTTING = frozenset({"detach", "mixed"})
#: how many gradients one operand gets from one operation, where that is not one
_CONTRIBUTIONS = {("square", 0): 2, ("pair", 1): 2}
_BITS: dict[Dtype, int] = {"bfloat16": 8, "float32": 24, "complex64": 24, "float64": 53}
#: how many of them may meet where the sum is rounded to fewer bits: two have no order
_MOST_CONTRIBUTIONS = 2

#: what one value may have at most: elements, and in each mode magnitude and slope
_MOST_ELEMENTS = 24
_MOST = {"exact": 2.0**20, "float": 2.0**6}
_STEEPEST = {"exact": 2.0**28, "float": 2.0**12}
#: gradients that an optimizer may take a step with
_MOST_STEPPED = 2.0**10


def generate(choices: Choices, limits: Limits | None = None) -> Program:
    """Draw a program."""
    if limits is None:
        limits = Limits()
    profile = draw_profile(choices, limits)
    workers = profile.workers
    leaves = [
        _draw_leaf(choices, profile, number)
        for number in choices.repeat("leaves", 1, limits.leaves)
    ]
    if profile.embedding:
        leaves.append(_draw_embedding(choices, profile))
    homes = [choices.integer("trainer", 0, workers - 1) for _ in range(profile.trainers)]
    #: leaves that one trainer alone may use, because it changes them
    private: dict[int, int] = {}
    if profile.optimizer:
        bits = max(_BITS[leaf.dtype] for leaf in leaves)
        for number, leaf in enumerate(leaves):
            # What is rounded to fewer bits would not be the same in the next step.
            usable = number and leaf.requires_grad and _BITS[leaf.dtype] == bits
            if usable and choices.chance("optimized", 0.6):
                private[number] = choices.integer("optimized by", 0, len(homes) - 1)
    trainers = []
    for number, home in enumerate(homes):
        own = tuple(leaf for leaf, owner in private.items() if owner == number)
        last = number == len(homes) - 1
        trainers.append(
            _draw_trainer(choices, profile, limits, leaves, private, number, home, own, last)
        )
    return Program(
        workers=workers, leaves=tuple(leaves), trainers=tuple(trainers), mode=profile.mode
    )


def _draw_leaf(choices: Choices, profile: Profile, number: int) -> Leaf:
    shapes = _SHAPES + _ODD_SHAPES if profile.odd_shapes else _SHAPES
    hooks: tuple[LeafHook, ...] = ()
    # Leaf 0 is there for everybody and always has a gradient.
    grad = number == 0 or not choices.chance("without grad", 0.2)
    if profile.leaf_hooks and grad and choices.chance("leaf hook", 0.5):
        usable = _LEAF_HOOKS if "increment" in profile.hooks else _LEAF_HOOKS[:-1]
        hooks = (choices.choice("leaf hook", usable),)
    return Leaf(
        owner=choices.integer("owner", 0, profile.workers - 1),
        shape=choices.choice("shape", shapes),
        dtype="float64" if profile.mode == "exact" else choices.choice("dtype", _DTYPES),
        requires_grad=grad,
        seed=choices.integer("seed", 0, 6),
        hooks=hooks,
    )


def _draw_embedding(choices: Choices, profile: Profile) -> Leaf:
    hooks: tuple[LeafHook, ...] = ()
    if profile.leaf_hooks and choices.chance("leaf hook", 0.5):
        hooks = (choices.choice("leaf hook", _LEAF_HOOKS[:2]),)
    return Leaf(
        owner=choices.integer("owner", 0, profile.workers - 1),
        shape=(choices.integer("rows", 2, 4), 2),
        dtype="float64"
        if profile.mode == "exact"
        else choices.choice("dtype", ("float32", "float64")),
        kind="embedding",
        seed=choices.integer("seed", 0, 6),
        hooks=hooks,
    )


def _draw_trainer(
    choices: Choices,
    profile: Profile,
    limits: Limits,
    leaves: list[Leaf],
    private: dict[int, int],
    number: int,
    home: int,
    own: tuple[int, ...],
    last: bool,
) -> Trainer:
    usable = [private.get(leaf, number) == number for leaf in range(len(leaves))]
    initial = 3.0 if profile.mode == "exact" else 2.0
    sizes = []
    for leaf in leaves:
        slope = 2.0 if "double" in leaf.hooks or "accumulate_pre" in leaf.hooks else 1.0
        sizes.append(size(leaf.shape, initial, slope))
    count = draw_steps(choices, profile)
    overlap = profile.overlap and count > 1 and not own and choices.chance("overlap", 0.5)
    lr = 1.0 if profile.mode == "exact" else 0.25
    steps = []
    for step in range(count):
        unused = profile.unused and last and step == count - 1 and not overlap
        drawing = _StepDrawing(choices, profile, leaves, usable, sizes, home, unused, bool(own))
        for _ in choices.repeat("ops", 1, limits.ops):
            drawing.draw_op()
        drawing.draw_roots()
        drawing.draw_backwards()
        optimize = (
            bool(own)
            and not unused
            and drawing.steepest <= _MOST_STEPPED
            and choices.chance("optimizer step", 0.7)
        )
        if optimize:
            for leaf in own:
                sizes[leaf] = sizes[leaf]._replace(most=sizes[leaf].most + lr * drawing.steepest)
        faulty = any(op.fault for op in drawing.ops)
        steps.append(
            Step(
                ops=tuple(drawing.ops),
                backwards=tuple(drawing.backwards),
                optimize=optimize,
                retry=faulty and choices.chance("retry", 0.5),
            )
        )
    return Trainer(
        worker=home,
        steps=tuple(steps),
        overlap=overlap,
        optimizer=Optimizer(leaves=own, lr=lr) if own else None,
    )


class _StepDrawing:
    """One step while it is drawn."""

    def __init__(
        self,
        choices: Choices,
        profile: Profile,
        leaves: list[Leaf],
        usable: list[bool],
        sizes: list[Size],
        home: int,
        unused: bool,
        optimizing: bool,
    ) -> None:
        self.choices = choices
        self.profile = profile
        self.leaves = leaves
        self.home = home
        self.ops: list[Op] = []
        self.backwards: list[Backward] = []
        self.flow = Flow(home, [(leaf.owner, leaf.requires_grad) for leaf in leaves])
        #: the sizes of the outputs of each value, leaves first
        self.sizes: list[list[Size]] = [[size] for size in sizes]
        #: which values may be used, leaves first; the very first one always
        self._usable = list(usable)
        self._unused = unused
        self._optimizing = optimizing
        self._faulty = profile.faults and choices.chance("fault in step", 0.6)
        self._roots: list[int] = []
        #: whether a value may have fewer bits than some leaf, and how many gradients it gets
        self._bits = max(_BITS[leaf.dtype] for leaf in leaves)
        self._narrow = [_BITS[leaf.dtype] < self._bits for leaf in leaves]
        self._gradients = [0] * len(leaves)
        #: what hooks may add to a gradient
        self._added = 0.0
        #: bound of a leaf's gradients
        self.steepest = 0.0

    # -- operations -----------------------------------------------------------------------

    def draw_op(self) -> None:
        choices, profile = self.choices, self.profile
        kind = choices.choice("kind", profile.kinds)
        spec = KINDS[kind]
        places = []
        if kind == "embedding":
            place = len(self.leaves) - 1
            if not self._usable[place]:
                return
            places.append((place, 0))
        else:
            for _ in range(spec.least):
                places.append(self._draw_value())
        if self._is_rounded(kind, places):
            kind, places = "scale", places[:1]
            spec = KINDS[kind]
        call: Call = choices.choice("call", profile.calls)
        home, workers = self.home, profile.workers
        worker = home
        if call != "local":
            worker = (home + choices.integer("worker", 0, workers - 1)) % workers
        grad: Grad = choices.choice("grad", profile.grads) if len(profile.grads) > 1 else "on"
        hows = [self._draw_how(place, output, worker) for place, output in places]
        via: tuple[int, ...] = ()
        relay: Relay = "pass"
        if profile.nested and call != "local" and call not in HELPER_CALLS:
            via = tuple(
                (home + choices.integer("via", 0, workers - 1)) % workers
                for _ in choices.repeat("depth", 0, 3)
            )
            if via:
                relay = choices.choice("relay", _RELAYS)
                if kind == "embedding" and relay == "double":
                    relay = "pass"
                if relay == "join" and any(self._narrow[place] for place, _ in places):
                    relay = "pass"
        if grad == "off_at_caller" and (via or call in REFERENCE_CALLS):
            grad = "off"
        factor = 1
        if kind != "pass":
            factors = _FACTORS[:3] if profile.mode == "float" else _FACTORS
            factor = choices.choice("factor", factors)
        if kind == "embedding":
            factor = abs(factor)
        # What would cut a gradient off behind a message stays at home.
        if (kind in _CUTTING or grad != "on") and not (self._unused and choices.chance("cut", 0.5)):
            cut_off = self._cuts_off_a_message(kind, places, hows, worker, grad)
            if cut_off and call != "local":
                call, worker, via, relay = "local", home, (), "pass"
            if cut_off:
                hows = ["value"] * len(hows)
        elif self._unused and call in LAZY_CALLS and kind in _CUTTING:
            hows = ["value"] * len(hows)
        hooks: tuple[Hook, ...] = ()
        if profile.hooks and choices.chance("hook", 0.3):
            hooks = (choices.choice("hook", profile.hooks),)
        fault: Fault | None = None
        if self._faulty and choices.chance("fault", 0.3):
            fault = choices.choice("fault", _FAULTS)
            self._faulty = False
        builtin = False
        if profile.builtin and spec.builtin is not None and call in _BUILTIN_CALLS:
            builtin = (
                not via
                and not hooks
                and fault is None
                and grad != "off"
                and not any(how != "value" for how in hows)
                and (len(places) == 1 or self._broadcasts(places))
                and choices.chance("builtin", 0.5)
            )
        keep: Keep = "step"
        if profile.keep and call in REFERENCE_CALLS and fault is None:
            keep = choices.choice("keep", _KEEPS)
            if keep == "program" and self._optimizing:
                keep = "step"
            if keep == "now" and (worker == home or self._records(places, hows, worker, builtin)):
                keep = "use"
        dtype: Dtype = "float64"
        if kind == "cast":
            dtype = choices.choice("dtype", _DTYPES)
        index = len(self.sizes)
        op = Op(
            kind=kind,
            inputs=tuple(
                _input(index - place, output, how)
                for (place, output), how in zip(places, hows, strict=True)
            ),
            worker=worker,
            call=call,
            via=via,
            relay=relay,
            builtin=builtin,
            grad=grad,
            factor=factor,
            dtype=dtype,
            keep=keep,
            hooks=hooks,
            fault=fault,
        )
        results = self._sizes_of(op, places, hows)
        if self._too_large(results):
            # The same call with something that makes nothing larger.
            op = _replace(op, "scale", (op.inputs[0],))
            results = self._sizes_of(op, places[:1], hows[:1])
            if self._too_large(results):
                op = _replace(op, "scale", (op.inputs[0],), via=())
                results = self._sizes_of(op, places[:1], hows[:1])
        self._append(op, results)
        if keep == "now":
            self._usable[-1] = False

    def _append(self, op: Op, results: list[Size]) -> None:
        self.flow.add(op)
        self.ops.append(op)
        self.sizes.append(results)
        self._usable.append(True)
        index = len(self._narrow)
        narrow = False
        for at, input in enumerate(op.inputs):
            place = index - input.back
            self._gradients[place] += _CONTRIBUTIONS.get((op.kind, at), 1)
            narrow = narrow or self._narrow[place]
        self._narrow.append(_BITS[op.dtype] < self._bits if op.kind == "cast" else narrow)
        self._gradients.append(0)

    def _is_rounded(self, kind: str, places: list[tuple[int, int]]) -> bool:
        """Whether the operation would let many gradients meet in few bits.

        Of three numbers the rounded sum depends on the order, and a tolerance for the leaf
        behind it knows nothing of that.
        """
        leaves = len(self.leaves)
        more: dict[int, int] = {}
        for at, (place, _) in enumerate(places):
            if place >= leaves and self._narrow[place]:
                more[place] = more.get(place, 0) + _CONTRIBUTIONS.get((kind, at), 1)
        return any(
            self._gradients[place] + count > _MOST_CONTRIBUTIONS for place, count in more.items()
        )

    def _draw_value(self) -> tuple[int, int]:
        """The place of an earlier value (leaves first) and one of its outputs."""
        here = len(self.sizes)
        place = here - self.choices.integer("back", 1, here)
        while not self._usable[place] or (
            self._narrow[place]
            and place >= len(self.leaves)
            and self._gradients[place] >= _MOST_CONTRIBUTIONS
        ):
            place -= 1
        outputs = len(self.sizes[place])
        return place, self.choices.integer("output", 0, outputs - 1) if outputs > 1 else 0

    def _draw_how(self, place: int, output: int, worker: int) -> How:
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
                return "value"  # its neighbour, fetched with it, would get no gradient
        if not self.choices.chance("by reference", 0.5):
            return "value"
        return "kept_rref" if self.choices.chance("kept there", 0.15) else "rref"

    def _records(
        self,
        places: list[tuple[int, int]],
        hows: list[How],
        worker: int,
        builtin: bool = False,
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
        self,
        kind: str,
        places: list[tuple[int, int]],
        hows: list[How],
        worker: int,
        grad: Grad,
    ) -> bool:
        if grad == "off_at_caller":
            by_reference = [(p, h) for p, h in zip(places, hows, strict=True) if h != "value"]
            return any(self._records([place], [how], worker) for place, how in by_reference)
        if not self._records(places, hows, worker):
            return False
        if grad == "on" and kind == "mixed":
            # Both in one message, for which the gradient of the first one is enough.
            return not (
                all(how == "value" for how in hows) and self._records(places[:1], hows[:1], worker)
            )
        return True

    def _broadcasts(self, places: list[tuple[int, int]]) -> bool:
        if self.profile.mode == "float":
            return False  # a complex number may come as two
        (a, i), (b, j) = places
        return broadcastable(self.sizes[a][i].shape, self.sizes[b][j].shape)

    def _sizes_of(self, op: Op, places: list[tuple[int, int]], hows: list[How]) -> list[Size]:
        inputs = [self.sizes[place][output] for place, output in places]
        if op.relay == "double" and op.via:
            factor = 2.0 ** len(op.via)
            inputs = [x._replace(most=x.most * factor, slope=x.slope * factor) for x in inputs]
        results = RULES[op.kind](op.factor, inputs)
        if op.relay == "join" and op.via:
            # Whichever input is the first to travel.
            many = len(op.via) * sum(x.count * x.most for x in inputs)
            steep = len(op.via) * sum(x.count * x.slope for x in inputs)
            first = results[0]
            results[0] = first._replace(most=first.most + many, slope=first.slope + steep)
        for hook in op.hooks:
            if hook in _SLOPING_HOOKS:
                results = [x._replace(slope=x.slope * 2) for x in results]
            elif hook == "increment":
                self._added += results[0].count * results[0].slope
        return results

    def _too_large(self, results: list[Size]) -> bool:
        mode = self.profile.mode
        most, steepest = _MOST[mode], _STEEPEST[mode]
        return any(x.count > _MOST_ELEMENTS or x.most > most or x.slope > steepest for x in results)

    # -- roots ----------------------------------------------------------------------------

    def draw_roots(self) -> None:
        """Add the operations that sum everything up, for backward to start from."""
        choices, profile, flow = self.choices, self.profile, self.flow
        ends = self._ends()
        if not ends:
            op = Op(kind="scale", inputs=(_input(len(self.sizes), 0, "value"),), worker=self.home)
            self._append(op, RULES["scale"](1, self.sizes[0]))
            ends = self._ends()
        if self._unused and len(ends) > 1:
            # One that is there: of what nobody asks for, nobody knows when it is done.
            there = [number for number, (_, _, fetched) in enumerate(ends) if fetched]
            if there:
                del ends[choices.choice("unused end", there)]
        groups = 1
        if profile.passes and len(ends) > 1:
            groups = choices.integer("roots", 1, min(3, len(ends)))
        for number in range(groups):
            self._append_root(ends[number::groups])
        if not self._unused:
            self._cover_the_rest()

    def _append_root(self, ends: list[tuple[int, int, bool]]) -> None:
        choices, profile, home = self.choices, self.profile, self.home
        call: Call = "local"
        worker = home
        if profile.remote_roots and choices.chance("remote root", 0.6):
            # The roots come from anywhere too, but not silently and not of operators.
            call = choices.choice("call", profile.calls)
            if call != "local":
                worker = (
                    home + choices.integer("worker", 0, profile.workers - 1)
                ) % profile.workers
            if any(
                place < len(self.leaves) and self.leaves[place].owner == worker
                for place, _, _ in ends
            ):
                # The trainer's copy of that leaf is meant, but its owner would take its own.
                call, worker = "local", home
        index = len(self.sizes)
        inputs = []
        for place, output, fetched in ends:
            how = "value" if fetched else self._draw_how(place, output, worker)
            inputs.append(_input(index - place, output, how))
        places = [(place, output) for place, output, _ in ends]
        op = Op(kind="total", inputs=tuple(inputs), worker=worker, call=call)
        results = RULES["total"](1, [self.sizes[p][o] for p, o in places])
        self._roots.append(index)
        self._append(op, results)

    def _ends(self) -> list[tuple[int, int, bool]]:
        """What no operation takes a gradient to: (place, output, the trainer has it already)."""
        ends: list[tuple[int, int, bool]] = []
        partial = self.profile.partial
        leaves = len(self.leaves)
        for place, made in enumerate(self.flow.values):
            if place < leaves:
                if (
                    made.here is not None
                    and made.place != self.home
                    and made.here[0] != NO_GRAD
                    and not made.here_carried
                ):
                    ends.append((place, 0, True))
                continue
            if not self._usable[place]:
                continue
            here = made.here
            fetched = here is not None
            carried = made.here_carried if fetched else made.carried
            found = False
            for output, state in enumerate(here if here is not None else made.states):
                if state == NO_GRAD or output in carried:
                    continue
                if made.place == self.home and output in made.carried:
                    continue
                if partial and (found or carried) and self.choices.chance("left out", 0.5):
                    continue
                found = True
                ends.append((place, output, fetched))
        return ends

    def _cover_the_rest(self) -> None:
        """Add what an output left out had been the only way to."""
        flow = self.flow
        reached = 0
        for root in self._roots:
            reached |= max(flow.values[root].states[0], 0)
        missing = ((1 << len(flow.marks)) - 1) & ~reached
        if not missing:
            return
        ends = []
        for place, made in enumerate(flow.values):
            if place in self._roots or not self._usable[place]:
                continue
            for output, state in enumerate(made.states if made.here is None else made.here):
                if state != NO_GRAD and state & missing:
                    ends.append((place, output, made.here is not None))
        if ends:
            self._append_root(ends)

    # -- backward passes ----------------------------------------------------------------------

    def draw_backwards(self) -> None:
        choices, profile, flow = self.choices, self.profile, self.flow
        index = len(self.sizes)
        roots = tuple(index - root for root in self._roots)
        by_reference = len(roots) == 1 and self.ops[-roots[0]].call in REFERENCE_CALLS
        count = 1
        if profile.passes and not self._unused:
            count = choices.integer("backwards", 1, 3)
        passes = 0
        for number in range(count):
            last = number == count - 1
            wheres: list[Where] = ["here"]
            if profile.remote_roots:
                if by_reference:
                    wheres += ["rref", "rref"]
                if last:
                    wheres.append("udf")
            where = choices.choice("where", wheres)
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
            times = 1 if self._unused or not profile.passes else choices.choice("times", _TIMES)
            backward = Backward(
                roots=chosen,
                times=times,
                retain_graph=not last or choices.chance("retain graph", 0.2),
                where=where,
                worker=choices.integer("worker", 0, profile.workers - 1) if where == "udf" else 0,
            )
            if flow.backward(backward).unfed and not self._unused:
                # Some send function would be left without a gradient.
                backward = Backward(roots=roots, times=times, retain_graph=backward.retain_graph)
                flow.backward(backward)
            self.backwards.append(backward)
            passes += times
        slope = sum(self.sizes[root][0].slope for root in self._roots)
        self.steepest = passes * (slope + self._added * len(self._roots))


def _replace(
    op: Op, kind: str, inputs: tuple[Input, ...], via: tuple[int, ...] | None = None
) -> Op:
    """The same call of another operation."""
    return Op(
        kind=kind,
        inputs=inputs,
        worker=op.worker,
        call=op.call,
        via=op.via if via is None else via,
        relay="pass",
        grad=op.grad,
        keep=op.keep,
        hooks=tuple(h for h in op.hooks if h == "look"),
        fault=op.fault,
    )


_INPUTS: dict[tuple[int, int, str], Input] = {}


def _input(back: int, output: int, how: How) -> Input:
    """An input; equal ones are the same object, since most are."""
    key = (back, output, how)
    found = _INPUTS.get(key)
    if found is None:
        found = _INPUTS[key] = Input(back, output, how)
    return found
