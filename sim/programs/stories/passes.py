"""Stories about backward passes: each has an autograd context of its own, two workers and a few
tensors.

As in sim/programs/stories/calls.py, each function runs on a trainer's worker and tells what came of
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from squall.model.program.stories import PLANTED, StoryError, stories_of
from squall.real.autograd import api as autograd
from squall.real.autograd.context import ThreadLocalDistAutogradContext
from squall.real.rpc import api as rpc
from squall.real.rpc.optimizer import DistributedOptimizer
from squall.real.rpc.wire_names import label_module
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.programs.stories.calls import SHORT_S, error_of, sleep

label_module(__name__, "passes")
story = stories_of(__name__, rank=20)

LR = 0.5

#: what a pass over a graph that is freed says
_FREED = "Trying to backward through the graph a second time"
#: where a worker notes which hooks were called
_CALLED = "hooks of a story"


def _leaf(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


def _gradient(context_id: int, leaf: Tensor) -> str:
    gradient = autograd.get_gradients(context_id).get(leaf)
    return "none" if gradient is None else str(gradient.tolist())


# -- what is called -------------------------------------------------------------------------------


def square(x: Tensor) -> Tensor:
    return x * x


def square_with_hook(x: Tensor, kind: str, context_id: int) -> Tensor:
    """``x * x``, with a hook that is called on this worker as gradients come."""
    y = x * x
    y.register_hook(_HOOKS[kind](context_id))
    return y


def twice_a_leaf_with_hook(kind: str, context_id: int) -> Tensor:
    """Twice a new leaf of this worker, whose hook is the last thing to happen there."""
    leaf = _leaf(1, 2)
    leaf.register_hook(_HOOKS[kind](context_id))
    return leaf * 2


def slow_leaf(seconds: float) -> Tensor:
    """A new leaf of this worker, made in its own time."""
    sleep(seconds)
    return _leaf(1, 2)


def _fail_once(context_id: int) -> Callable[[Tensor], None]:
    calls: list[None] = []

    def hook(grad: Tensor) -> None:
        calls.append(None)
        if len(calls) == 1:
            raise StoryError(PLANTED)

    return hook


def _release(context_id: int) -> Callable[[Tensor], None]:
    def hook(grad: Tensor) -> None:
        autograd._release_context(context_id)

    return hook


def _dawdle(context_id: int) -> Callable[[Tensor], None]:
    def hook(grad: Tensor) -> None:
        sleep(SHORT_S)

    return hook


def two_branches(x: Tensor, context_id: int) -> Tensor:
    """``x * 2 + x * 3``: the second product is reached first, and fails."""
    called: list[str] = []
    current_worker().locals[_CALLED, context_id] = called
    first, second = x * 2, x * 3
    first.register_hook(lambda grad: called.append("first"))
    second.register_hook(_fail_once(context_id))
    return first + second


def called_hooks(context_id: int) -> list[str]:
    called: list[str] = current_worker().locals.pop((_CALLED, context_id))
    return called


_HOOKS: dict[str, Callable[[int], Callable[[Tensor], None]]] = {
    "fail once": _fail_once,
    "release": _release,
    "dawdle": _dawdle,
}


# -- stories ---------------------------------------------------------------------------------------


def _way(home: int, to: int) -> str:
    """How the error of a pass that worker ``home`` started and that failed on ``to`` begins."""
    return f"Error on Node {home}: " + (f"Error on Node {to}: " if to != home else "")


@story("second pass", expected="True; [2.0, 4.0]")
def second_pass(to: int) -> str:
    """A pass cannot begin in a context while another one runs there."""
    seen: list[str] = []
    with autograd.context() as context_id:
        x = _leaf(1, 2)
        y = rpc.rpc_sync(to, square, args=(x,))
        other = x.sum()

        def hook(grad: Tensor) -> None:
            seen.append(error_of(lambda: autograd.backward(context_id, [other])))

        y.register_hook(hook)
        autograd.backward(context_id, [y.sum()])
        found = _gradient(context_id, x)
    return f"{'already running' in seen[0]}; {found}"


@story("freed graph", expected="[4.0, 8.0]; True", errors=(_FREED,))
def freed_graph(to: int) -> str:
    """A pass without ``retain_graph`` frees what it has used; one with it does not."""
    with autograd.context() as context_id:
        x = _leaf(1, 2)
        loss = rpc.rpc_sync(to, square, args=(x,)).sum()
        autograd.backward(context_id, [loss], retain_graph=True)
        autograd.backward(context_id, [loss])
        found = _gradient(context_id, x)
        error = error_of(lambda: autograd.backward(context_id, [loss]))
    return f"{found}; {_FREED in error}"


@story(
    "failed pass again",
    expected=lambda home, to: f"RuntimeError: {_way(home, to)}{PLANTED}; none; [2.0, 4.0]",
)
def failed_pass_again(to: int) -> str:
    """A pass that failed on another worker does not affect the next one in its context."""
    with autograd.context() as context_id:
        x = _leaf(1, 2)
        loss = rpc.rpc_sync(to, square_with_hook, args=(x, "fail once", context_id)).sum()
        error = error_of(lambda: autograd.backward(context_id, [loss], retain_graph=True))
        before = _gradient(context_id, x)
        autograd.backward(context_id, [loss])
        after = _gradient(context_id, x)
    return f"{error}; {before}; {after}"


@story("overtaken pass", expected="True; no error but None; [4.0, 8.0]")
def overtaken_pass(to: int) -> str:
    """A pass that failed still runs on another worker when the next one of its context arrives
    there: late gradients of the first do not affect the second."""
    other = (to + 1) % len(rpc._get_current_rpc_agent().get_worker_infos())
    with autograd.context() as context_id:
        x = _leaf(1, 2)
        fails = rpc.rpc_sync(to, square_with_hook, args=(x, "fail once", context_id))
        slow = rpc.rpc_sync(other, square_with_hook, args=(x, "dawdle", context_id))
        loss = fails.sum() + slow.sum()
        first = error_of(lambda: autograd.backward(context_id, [loss], retain_graph=True))
        second = error_of(lambda: autograd.backward(context_id, [loss]))
        found = _gradient(context_id, x)
    return f"{PLANTED in first}; {second}; {found}"


@story("stop at an error", expected=lambda home, to: f"RuntimeError: {_way(home, to)}{PLANTED}; []")
def stop_at_an_error(to: int) -> str:
    """After an error no node is run on that worker that was ready before."""
    with autograd.context() as context_id:
        x = _leaf(1, 2)
        loss = rpc.rpc_sync(to, two_branches, args=(x, context_id)).sum()
        error = error_of(lambda: autograd.backward(context_id, [loss]))
    return f"{error}; {rpc.rpc_sync(to, called_hooks, args=(context_id,))}"


@story("released by a hook", expected="released")
def released_by_a_hook(to: int) -> str:
    """A hook on another worker releases the context while further gradients for that worker are
    to come: the pass ends with an error that says so.

    Which of two gradients goes first depends on the threads that their values came by: each may."""
    context = autograd._new_context()
    context_id = context._context_id()
    x = _leaf(1, 2)
    began: list[None] = []

    def dawdle_after_another(grad: Tensor) -> None:
        if began:
            sleep(SHORT_S)
        began.append(None)

    one = rpc.rpc_sync(to, square_with_hook, args=(x, "release", context_id))
    other = rpc.rpc_sync(to, twice_a_leaf_with_hook, args=("release", context_id))
    for each in (one, other):
        each.register_hook(dawdle_after_another)
    loss = one.sum() + other.sum()
    error = error_of(lambda: autograd.backward(context_id, [loss]))
    current_task().autograd_context_id = -1
    return _says_released(error)


@story("released meanwhile", expected="released; [1.0, 2.0]")
def released_meanwhile(to: int) -> str:
    """A context is released by its own worker while another one is at work, in a pass, which
    fails, and in a call, whose value arrives although it can be recorded no more."""
    context = autograd._new_context()
    context_id = context._context_id()
    x = _leaf(1, 2)
    loss = rpc.rpc_sync(to, square_with_hook, args=(x, "dawdle", context_id)).sum()
    late = rpc.rpc_async(to, slow_leaf, args=(SHORT_S,))

    def release() -> None:
        sleep(SHORT_S / 2)
        autograd._release_context(context_id)

    current_task().runtime.spawn(release, name="story", worker=current_worker())
    error = error_of(lambda: autograd.backward(context_id, [loss]))
    current_task().autograd_context_id = -1
    sleep(SHORT_S)
    return f"{_says_released(error)}; {late.wait().tolist()}"


def _says_released(error: str) -> str:
    words = ("released", "no longer valid", "Could not find autograd context")
    return "released" if any(text in error for text in words) else error


@story("leaf context", expected="[True, True]")
def leaf_context(to: int) -> str:
    """Hooks behind a leaf see the context that its gradient belongs to; code that runs afterwards
    does not."""
    seen: list[object] = []
    with autograd.context() as context_id:
        x, y = _leaf(1, 2), _leaf(3, 4)
        node: Any = torch.autograd.graph.get_gradient_edge(x).node

        def here(*_: object) -> None:
            context = ThreadLocalDistAutogradContext.get_context_ptr()
            seen.append(context is not None and context.context_id == context_id)

        def elsewhere(grad: Tensor) -> None:
            seen.append(ThreadLocalDistAutogradContext.get_context_ptr() is None)

        node.register_hook(here)
        product = rpc.rpc_sync(to, torch.mul, args=(x, y))
        # Of both leaves, y is reached later: it hangs on an operation of its own.
        deep = (y * 1 * 1 * 1).sum()
        loss = product.sum() + deep
        y.register_hook(elsewhere)
        autograd.backward(context_id, [loss])
        del node
    return f"{seen}"


@story("hooks in order", expected="t1 t2 p1 p2 q1 q2 t1 t2 p1 p2 q1 q2; [[1.0, 1.0], [1.0, 1.0]]")
def hooks_in_order(to: int) -> str:
    """All hooks of a node and of a tensor are called, in order, in each pass."""
    seen: list[str] = []

    def note(name: str) -> Callable[..., None]:
        return lambda *_: seen.append(name)

    with autograd.context() as context_id:
        x = _leaf(1, 2)
        y = rpc.rpc_sync(to, square, args=(x,)) * 2
        y.retain_grad()
        y.register_hook(note("t1"))
        y.register_hook(note("t2"))
        node: Any = y.grad_fn
        node.register_prehook(note("p1"))
        node.register_prehook(note("p2"))
        node.register_hook(note("q1"))
        node.register_hook(note("q2"))
        loss = y.sum()
        autograd.backward(context_id, [loss], retain_graph=True)
        first, y.grad = y.grad, None
        autograd.backward(context_id, [loss])
        second = y.grad
        retained = [None if each is None else each.tolist() for each in (first, second)]
    return f"{' '.join(seen)}; {retained}"


class _GradModeLeftOn(torch.autograd.Function):
    """Twice its input; its backward leaves grad mode on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        torch.set_grad_enabled(True)
        return grad * 2


def careless(x: Tensor) -> Tensor:
    found: Tensor = _GradModeLeftOn.apply(x * x)  # type: ignore[no-untyped-call]
    return found


@story("grad mode", expected="[8.0, 16.0]; False; [False]")
def grad_mode(to: int) -> str:
    """What a custom ``backward`` does to grad mode ends with it: gradients have no graph, those on
    their way neither."""
    seen: list[bool] = []
    with autograd.context() as context_id:
        x = _leaf(1, 2)
        y = x * 1
        y.register_hook(lambda grad: seen.append(grad.requires_grad))
        loss = (rpc.rpc_sync(to, careless, args=(x,)) + careless(y)).sum()
        autograd.backward(context_id, [loss])
        gradient = autograd.get_gradients(context_id)[x]
        found = f"{gradient.tolist()}; {gradient.requires_grad}; {seen}"
    return found


def two_views() -> str:
    """The gradients of two leaves are views of one tensor: each leaf needs one of its own, since
    the next pass adds to them."""
    a, b = torch.ones(2, 1, requires_grad=True), torch.ones(1, 2, requires_grad=True)
    with autograd.context() as context_id:
        loss = ((a.reshape(2) + b.reshape(2)) * 1).sum()
        for last in (False, True):
            autograd.backward(context_id, [loss], retain_graph=not last)
        gradients = autograd.get_gradients(context_id)
        return f"{gradients[a].tolist()} {gradients[b].tolist()}"


@story("views of one gradient", expected="[[2.0], [2.0]] [[2.0, 2.0]]")
def views_of_one_gradient(to: int) -> str:
    """Two leaves whose gradients are views of one tensor add up each its own over two passes."""
    found: str = rpc.rpc_sync(to, two_views)
    return found


def rows_and_all() -> str:
    """A table gets a sparse gradient from one pass, and a dense one from the next."""
    table = torch.ones(3, 2, requires_grad=True)
    with autograd.context() as context_id:
        rows = functional.embedding(torch.tensor([0, 1, 0]), table, sparse=True)
        autograd.backward(context_id, [rows.sum()])
        autograd.backward(context_id, [(table * 1).sum()])
        gradient = autograd.get_gradients(context_id)[table]
        return f"{gradient.to_dense().tolist() if gradient.is_sparse else gradient.tolist()}"


@story("sparse, then dense", expected="[[3.0, 3.0], [2.0, 2.0], [1.0, 1.0]]")
def sparse_then_dense(to: int) -> str:
    """A table whose first pass gives it a sparse gradient and whose second a dense one has both."""
    found: str = rpc.rpc_sync(to, rows_and_all)
    return found


class PlainSGD:
    """An optimizer without a functional version in torch: its step reads ``.grad``.

    Not one of ``torch.optim``: the first of those imports ``torch._dynamo``, which takes longer
    than a hundred scenarios.
    """

    def __init__(self, params: list[Tensor], lr: float) -> None:
        self.params = params
        self.lr = lr

    def step(self) -> None:
        """One step of SGD for what has a gradient."""
        with torch.no_grad():
            for param in self.params:
                if param.grad is not None:
                    param.add_(param.grad, alpha=-self.lr)


def parameters(numbers: list[float]) -> list[Any]:
    """References to new parameters of this worker, one for each number."""
    return [rpc.RRef(_leaf(number)) for number in numbers]


@story("optimizer by grad", expected="[0.0, 1.0, 0.5, 2.0]")
def optimizer_by_grad(to: int) -> str:
    """An ordinary optimizer steps what has a gradient in the context, and nothing else."""
    mine, theirs = parameters([1, 2]), rpc.rpc_sync(to, parameters, args=([3, 4],))
    optimizer = DistributedOptimizer(PlainSGD, [*mine, *theirs], lr=LR)
    a, b = mine
    c, d = theirs
    for used in ([a, b, c, d], [a, c]):
        with autograd.context() as context_id:
            loss = torch.zeros((), dtype=torch.float64)
            for number, rref in enumerate(used):
                loss = loss + (rref.to_here() * (number + 1)).sum()
            autograd.backward(context_id, [loss])
            optimizer.step(context_id)
    found = [rref.to_here().item() for rref in (a, b, c, d)]
    return f"{found}"
