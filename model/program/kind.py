"""What there is to know of one kind of operation: all of it in one object.

Each module of ``model/program/kinds/`` declares some, near relatives together. Whoever runs,
draws, bounds, cuts or counts operations asks the :class:`Kind` and names none; so a new kind of
operation is a new file there and no change anywhere else.

Every operation takes tensors of any shape and dtype: where two do not fit together, the second
one's sum takes its place (model/program/broadcasting.py); so a program stays meaningful when a part of
it is cut out or changed. Every result is a tensor of its own, that hooks can be put on without
meaning an input as well, unless the kind ``returns_input``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from squall.model.program.operation_source import expression_of
from squall.model.program.program import Op
from squall.model.program.sizes import SizeRule
from squall.model.program.source import Definitions

Value = Tensor | tuple[Tensor, ...]
Run = Callable[[Op, Sequence[Tensor]], Value]

#: as many inputs as one likes
MANY = 1000
#: the feature of every generated program
ALWAYS = "always"
#: the rank of a kind that declares none: behind all that do
LAST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of operation.

    - ``name``: as programs and their files call it.
    - ``run``: what it computes, with plain torch, from the operation and its inputs.
    - ``sizes``: how large its results and their derivatives get.
    - ``least``, ``most``: how many inputs it takes. ``outputs``: how many results it has.
    - ``cuts``: pairs (output, input) between which no gradient passes.
    - ``gradients``: how many gradients each input gets from one use, where that is not one each.
    - ``exact``: whether integers stay integers, in both directions.
    - ``builtin``: the operator of torch that computes the same, if there is one, from the inputs
      and, if it looks at one, the factor.
    - ``factor``: which factors it looks at. ``takes_dtype``: whether ``Op.dtype`` is the dtype
      of the result. ``takes_table``: whether its one input is a leaf of kind embedding.
    - ``is_root``: whether its one result is a real scalar with a ``grad_fn``, from which a
      backward pass can start. ``returns_input``: whether the result is the input itself.

    How generated programs get it:

    - ``features``: the features of a program that bring it (model/generate/profiles.py), or
      :data:`ALWAYS`; one that no program has yet becomes a feature. Empty: it is never drawn.
    - ``rank``: its place among all kinds, which is the order in which they are offered when one
      is drawn: what has a rank keeps the programs of a seed as they are, what has none comes
      last.
    - ``cancels``: it loses digits for which no tolerance allows, so programs of mode float do
      without it. ``undefined``: it leaves gradients undefined, which arrive as zeros from
      another worker, so programs in which a hook could tell do without it.

    How it is written in a script for stock PyTorch (``squall export``): as the source of ``run``
    says, or as ``code`` makes it from the operation and the expressions for its inputs, where that
    source would not do.

    ``simple``: the shrinker tries it instead of kinds that come later. ``shows``: the features
    that are counted by it (model/coverage/features.py).
    """

    name: str
    run: Run
    sizes: SizeRule
    features: tuple[str, ...] = ()
    rank: int = LAST
    least: int = 1
    most: int = 1
    outputs: int = 1
    cuts: frozenset[tuple[int, int]] = frozenset()
    gradients: tuple[int, ...] = ()
    exact: bool = True
    builtin: Callable[..., Any] | None = None
    factor: Literal["none", "any", "positive"] = "none"
    takes_dtype: bool = False
    takes_table: bool = False
    is_root: bool = False
    returns_input: bool = False
    cancels: bool = False
    undefined: bool = False
    simple: bool = False
    shows: tuple[str, ...] = ()
    code: Callable[[Op, Sequence[str], Definitions], str] | None = None

    def source(self, op: Op, inputs: Sequence[str], definitions: Definitions) -> str:
        """What it computes, as an expression of a script; ``definitions`` gets what that needs.

        Raises NotPlainError if ``run`` has no text that would mean the same there.
        """
        if self.code is not None:
            return self.code(op, inputs, definitions)
        return expression_of(self.run, op, inputs, definitions, self.name)

    def gradients_of(self, input: int) -> int:
        """How many gradients that input gets from one use of the operation."""
        return self.gradients[input] if self.gradients else 1

    def passes_gradients_to(self, input: int) -> bool:
        """Whether any output has a gradient for that input."""
        cuts = self.cuts
        return not cuts or any((output, input) not in cuts for output in range(self.outputs))
