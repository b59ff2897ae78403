"""Stories about what a node may return and a hook may do, and about gradients of every layout.

Each runs on the worker that is called, in contexts of its own, and returns "as it should be" or the
names of the facts that do not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from squall.model.program.stories import PLANTED, StoryError, stories_of
from squall.real.autograd import api as autograd
from squall.real.autograd.graph_task import queue_callback
from squall.real.rpc import api as rpc
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.stories.api import told
from squall.sim.programs.stories.calls import error_of

label_module(__name__, "nodes")
story = stories_of(__name__, rank=40)

Case = tuple[list[Tensor], Tensor]


def _there(
    name: str, *, port_only: str = "", on_torch: tuple[str, str] | None = None
) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Declares a story that runs on the worker that is called."""

    def declare(body: Callable[[], str]) -> Callable[[], str]:
        def perform(to: int) -> str:
            found: str = rpc.rpc_sync(to, body)
            return found

        perform.__doc__ = body.__doc__
        story(name, drawn="rarely", port_only=port_only, on_torch=on_torch)(perform)
        return body

    return declare


def _leaf(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


# -- what hooks and functions return --------------------------------------------------------------


def _after(change: Callable[[Tensor], object]) -> str:
    """The gradient of ``[1, 2]`` for ``(x * 2).sum()``, or the error, if ``change`` does something
    to ``x * 2``."""
    x = _leaf(1, 2)
    with autograd.context() as context_id:
        y = x * 2
        changed = change(y)
        loss = (changed if isinstance(changed, Tensor) else y).sum()
        error = error_of(lambda: autograd.backward(context_id, [loss]))
        gradient = autograd.get_gradients(context_id).get(x)
    return error if gradient is None else str(gradient.tolist())


def _node(y: Tensor) -> Any:
    return y.grad_fn


class _Returning(torch.autograd.Function):
    """Its input; its backward returns what ``give`` makes of the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, give: Callable[[Tensor], Any]) -> Tensor:
        ctx.give = give
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return ctx.give(grad)


class _Two(torch.autograd.Function):
    """Its input twice; its backward tells of which type the second gradient is, if there is one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, materialize: bool, seen: list[object]) -> Any:
        ctx.set_materialize_grads(materialize)
        ctx.seen = seen
        return x * 1, x * 1

    @staticmethod
    def backward(ctx: Any, first: Tensor, second: Tensor | None) -> Any:
        ctx.seen.append(None if second is None else (second.dtype, *second.shape))
        return first, None, None


def _of_a_complex_leaf(give: Callable[[Tensor], Any]) -> str:
    x = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    with autograd.context() as context_id:
        y = _Returning.apply(x, give)  # type: ignore[no-untyped-call]
        autograd.backward(context_id, [y.real.sum()])
        gradient = autograd.get_gradients(context_id)[x]
    return f"{gradient.dtype} {gradient.tolist()}"


def _hooked(hook: Callable[..., object], register: str = "") -> str:
    """With a hook on the tensor, or one that is registered so on its node."""
    return _after(
        lambda y: getattr(_node(y), register)(hook) if register else y.register_hook(hook)
    )


def _giving(give: Callable[[Tensor], Any]) -> str:
    return _after(lambda y: _Returning.apply(y, give))  # type: ignore[no-untyped-call]


def _of_two(materialize: bool) -> list[object]:
    seen: list[object] = []
    _after(lambda y: _Two.apply(y, materialize, seen)[0])  # type: ignore[no-untyped-call]
    return seen


@_there(
    "what is returned",
    on_torch=(
        "error-in-a-hook",
        "not so: hook_gives_a_tensor, hook_before_gives_a_tuple, hook_after_gives_a_tuple",
    ),
)
def returned() -> str:
    """What hooks and functions return is used, or refused with torch's error text."""
    hook = [
        _hooked(value)
        for value in (lambda g: g * 3, lambda g: 5, lambda g: g.sum(), lambda g: g.float())
    ]
    before = [
        _hooked(value, "register_prehook")
        for value in (
            lambda grads: (grads[0] * 3,),
            lambda grads: [grads[0]],
            lambda grads: (grads[0], grads[0]),
        )
    ]
    after = [
        _hooked(value, "register_hook")
        for value in (
            lambda grads, given: (grads[0] * 3, *grads[1:]),
            lambda grads, given: (grads[0] + given[0], *grads[1:]),
            lambda grads, given: list(grads),
            lambda grads, given: grads[:1],
        )
    ]
    return told(
        hook_replaces=hook[0] == "[6.0, 6.0]",
        hook_gives_a_tensor="expected Variable, but hook returned 'int'" in hook[1],
        hook_keeps_the_size="has changed the size of value" in hook[2],
        hook_keeps_the_type="has changed the type of value" in hook[3],
        hook_before_replaces=before[0] == "[6.0, 6.0]",
        hook_before_gives_a_tuple="expected tuple, but hook returned 'list'" in before[1],
        hook_before_gives_as_many="incorrect number of values (got 2, but expected 1)" in before[2],
        hook_after_replaces=after[0] == "[6.0, 6.0]",
        hook_after_sees_the_inputs=after[1] == "[3.0, 3.0]",
        hook_after_gives_a_tuple="expected tuple, but hook returned 'list'" in after[2],
        hook_after_gives_as_many="incorrect number of values" in after[3],
        gradient=_giving(lambda grad: (grad * 3, None)) == "[6.0, 6.0]",
        further_nones=_giving(lambda grad: (grad, None, None)) == "[2.0, 2.0]",
        no_gradient=_giving(lambda grad: (None, None)) == "no error but None",
        too_few="incorrect number of gradients (expected 2, got 1)" in _giving(lambda grad: grad),
        too_many="(expected 2, got 3)" in _giving(lambda grad: (grad, None, grad)),
        no_tensor="expected Variable or None (got int)" in _giving(lambda grad: (1, None)),
        of_no_tensor="different than None at position 2" in _giving(lambda grad: (grad, grad)),
        wrong_shape="invalid gradient at index 0" in _giving(lambda grad: (torch.ones(3), None)),
        summed=_giving(lambda grad: (grad.expand(3, 2), None)) == "[6.0, 6.0]",
        converted=_giving(lambda grad: (grad.float() * 3, None)) == "[6.0, 6.0]",
        wrong_type="invalid gradient" in _giving(lambda grad: (grad.expand(4, 2).reshape(8), None)),
        real_for_complex=_of_a_complex_leaf(lambda grad: (grad.real * 3, None))
        == "torch.complex64 [(3+0j), (3+0j)]",
        zeros_for_nothing=_of_two(True) == [(torch.float64, 2)],
        nothing_for_nothing=_of_two(False) == [None],
    )


def _twice(change: Callable[[Tensor, list[str]], None]) -> tuple[list[str], str]:
    """What ``change`` notes in the two passes of a context, and what came of the second."""
    seen: list[str] = []
    x = _leaf(1, 2)
    with autograd.context() as context_id:
        y = x * 2
        change(y, seen)
        loss = y.sum()
        autograd.backward(context_id, [loss], retain_graph=True)
        seen.append("|")
        error = error_of(lambda: autograd.backward(context_id, [loss]))
    return seen, error


def _final(y: Tensor, seen: list[str]) -> None:
    def last() -> None:
        seen.append("last")

    def first() -> None:
        seen.append("first")
        queue_callback(last)

    def hook(grad: Tensor) -> None:
        queue_callback(first)
        queue_callback(lambda: seen.append("second"))

    y.register_hook(hook)
    _node(y).register_hook(lambda *_: seen.append("node"))


#: in the order in which they were queued, the last one by the first
_CALLED_BACK = ("node", "first", "second", "last")


def _failing(y: Tensor, seen: list[str]) -> None:
    def fails() -> None:
        if "|" in seen:
            raise StoryError(PLANTED)

    y.register_hook(lambda grad: queue_callback(fails))


def _numbered(y: Tensor, seen: list[str]) -> None:
    y.register_hook(lambda grad: seen.append(str(_pass_number())))
    _node(y).register_prehook(lambda grads: seen.append(str(_pass_number())))


def _nested(y: Tensor, seen: list[str]) -> None:
    def hook(grad: Tensor) -> None:
        number = _pass_number()
        x = _leaf(3)
        with torch.enable_grad(), autograd.context() as context_id:
            inner = x * 2
            inner.register_hook(lambda grad: seen.append("inner" * (_pass_number() != number)))
            autograd.backward(context_id, [inner.sum()])
            seen.append(str(autograd.get_gradients(context_id)[x].tolist()))
        seen.append("outer" * (_pass_number() == number))

    y.register_hook(hook)


def _pass_number() -> int:
    return torch._C._current_graph_task_id()


@_there("after the pass")
def after_the_pass() -> str:
    """Callbacks that are queued in a pass are called at its end, in their order and once; each pass
    has a number."""
    seen, _ = _twice(_final)
    _, error = _twice(_failing)
    numbers, _ = _twice(_numbered)
    first, second = numbers[: numbers.index("|")], numbers[numbers.index("|") + 1 :]
    outside = error_of(lambda: queue_callback(lambda: None))
    return told(
        callbacks=seen == [*_CALLED_BACK, "|", *_CALLED_BACK],
        errors=PLANTED in error,
        one_number=len(first) == len(second) == 2 and len({*first}) == len({*second}) == 1,
        another_number=first[0] != second[0] and "-1" not in numbers,
        no_number=_pass_number() == -1,
        only_in_a_pass="can only be installed during backward pass" in outside,
    )


@_there(
    "pass in a pass",
    port_only="a distributed pass that a hook begins waits for ever: the thread of PyTorch's engine "
    "that would run it waits in the hook",
)
def pass_in_a_pass() -> str:
    """A hook may run a pass of a context of its own."""
    within, _ = _twice(_nested)
    return told(within=within == ["inner", "[2.0]", "outer", "|", "inner", "[2.0]", "outer"])


# -- gradients of every layout --------------------------------------------------------------------


def _ones(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.ones(shape, dtype=dtype)


def _grad(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_()


def _rows(table: Tensor, *numbers: int) -> Tensor:
    return functional.embedding(torch.tensor(numbers), table, sparse=True)


def _transposed() -> Case:
    x = _grad(_ones(2, 3).t())
    return [x], (x * torch.arange(6.0, dtype=torch.float64).reshape(3, 2)).sum()


def _with_gaps() -> Case:
    x = _grad(_ones(4, 4)[:, ::2])
    return [x], (x * torch.arange(8.0, dtype=torch.float64).reshape(4, 2)).sum()


def _overlapping() -> Case:
    x = _grad(_ones(1).expand(3))
    return [x], (x * torch.arange(3.0, dtype=torch.float64)).sum()


def _channels_last() -> Case:
    x = _grad(_ones(2, 3, 2, 2).contiguous(memory_format=torch.channels_last))
    return [x], (x * torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 2, 2)).sum()


def _expanded() -> Case:
    x, y = _grad(_ones(2, 3)), _grad(_ones(3))
    return [x, y], (x * 2 + y).sum()


def _one_gradient_for_two() -> Case:
    x, y = _grad(_ones(3)), _grad(_ones(3))
    return [x, y], ((x + y) * 3).sum()


def _mixed_types() -> Case:
    x, y = _grad(_ones(3, dtype=torch.float32)), _grad(_ones(3))
    z = _grad(_ones(3, dtype=torch.bfloat16))
    return [x, y, z], (x * y + z.double() * y).sum()


def _complex() -> Case:
    x = _grad(_ones(3, dtype=torch.complex64))
    y = _grad(_ones(3, dtype=torch.float32))
    return [x, y], (x * (2 + 1j) * y).abs().sum()


def _nothing() -> Case:
    x, y = _grad(_ones(0, 3)), _grad(_ones(1))
    return [x, y], (x * 2).sum() + y.sum()


def _by_a_list() -> Case:
    x = _grad(_ones(3))
    parts = torch.split(x * 2, [1, 2])
    return [x], parts[0].sum() + (parts[1] * 3).sum() + x[1] * 5


def _sparse() -> Case:
    table = _grad(_ones(4, 2))
    return [table], (_rows(table, 0, 1, 0) * 2).sum()


def _sparse_twice() -> Case:
    table = _grad(_ones(4, 2))
    return [table], _rows(table, 0, 1).sum() + (_rows(table, 3, 1) * 3).sum()


def _sparse_and_dense() -> Case:
    table = _grad(_ones(4, 2))
    return [table], _rows(table, 0, 1).sum() + (table * 3).sum() + _rows(table, 2).sum()


def _dense_and_sparse() -> Case:
    table = _grad(_ones(4, 2))
    both = (table * 3).sum() + (table * 2).sum()
    return [table], both + _rows(table, 2).sum() + _rows(table, 2, 2).sum()


def _five_times() -> Case:
    x = _grad(_ones(3))
    y = x * 2
    return [x], (y + y * 3 + y * 5 + y * 7 + y * 11).sum()


_CASES: dict[str, Callable[[], Case]] = {
    "transposed": _transposed,
    "with_gaps": _with_gaps,
    "overlapping": _overlapping,
    "channels_last": _channels_last,
    "expanded": _expanded,
    "one_gradient_for_two": _one_gradient_for_two,
    "mixed_types": _mixed_types,
    "complex": _complex,
    "nothing": _nothing,
    "by_a_list": _by_a_list,
    "sparse": _sparse,
    "sparse_twice": _sparse_twice,
    "sparse_and_dense": _sparse_and_dense,
    "dense_and_sparse": _dense_and_sparse,
    "five_times": _five_times,
}


#: those whose gradients might be taken over as they are
_KEPT = ("transposed", "one_gradient_for_two", "sparse", "sparse_twice", "five_times")


def _same(ours: Tensor | None, theirs: Tensor | None) -> bool:
    """Whether two gradients are the same, layout and all. Small whole numbers: to the bit."""
    if ours is None or theirs is None:
        return ours is theirs
    if ours.layout is not theirs.layout or ours.dtype is not theirs.dtype:
        return False
    if ours.layout is not torch.strided:
        return torch.equal(ours.to_dense(), theirs.to_dense())
    return torch.equal(ours, theirs) and ours.stride() == theirs.stride()


def _agrees(case: Callable[[], Case], *, kept: bool) -> bool:
    """Whether two passes give what torch's own engine gives in ``.grad``, after each. ``kept``:
    hooks keep what comes to the leaves, which nobody may write to."""
    leaves, loss = case()
    others, other = case()
    held = True
    seen: list[tuple[Tensor, Tensor]] = []
    if kept:
        for leaf in leaves:
            leaf.register_hook(lambda grad: seen.append((grad, grad.clone())))
    with autograd.context() as context_id:
        for retain in (True, False):
            autograd.backward(context_id, [loss], retain)
            cast(Any, other).backward(retain_graph=retain)
            gradients = autograd.get_gradients(context_id)
            held &= all(
                _same(gradients.get(ours), theirs.grad)
                for ours, theirs in zip(leaves, others, strict=True)
            )
    untouched = all(_same(grad, clone) for grad, clone in seen)
    return held and untouched and all(leaf.grad is None for leaf in leaves)


@_there("layouts")
def layouts() -> str:
    """Gradients of every layout and type are accumulated as in a single process."""
    facts = {name: _agrees(case, kept=False) for name, case in _CASES.items()}
    return told(**facts, **{f"{name}_kept": _agrees(_CASES[name], kept=True) for name in _KEPT})
