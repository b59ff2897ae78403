"""User code of a script that sleeps in backward passes, and passes that may fail on its account."""

from __future__ import annotations

from squall.model.program.program import Backward, Leaf, Op
from squall.sim.export.parts import Parts
from squall.sim.export.text import Lines

_SLEEPING = '''class Sleeping:
    """A hook: call number n sleeps for seconds[n], later ones not at all."""

    def __init__(self, *seconds):
        self.left = list(reversed(seconds))

    def __call__(self, *_):
        seconds = self.left.pop() if self.left else 0
        time.sleep(seconds)'''

_SLEEP_IN_BACKWARD = '''class SleepInBackward(torch.autograd.Function):
    """The identity, whose backward sleeps."""

    @staticmethod
    def forward(ctx, x, sleeping):
        ctx.sleeping = sleeping
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        ctx.sleeping()
        return grad, None'''

_SHOW_ERROR = '''def show_error(name, error):
    """Print what a backward pass failed with."""
    print(f"{name}, error: {type(error).__name__}: {str(error).splitlines()[:1]}\\n", end="", flush=True)'''


def _hook(parts: Parts, seconds: tuple[float, ...]) -> str:
    parts.use("import time")
    parts.helper("Sleeping", _SLEEPING)
    return f"Sleeping({', '.join(map(repr, seconds))})"


def sleep_in_leaf(lines: Lines, parts: Parts, leaf: Leaf, name: str) -> None:
    """Lines that let the leaf called ``name`` sleep, if it does."""
    if leaf.sleep is None:
        return
    hook = _hook(parts, leaf.sleep.seconds)
    if leaf.sleep.at == "tensor":
        lines.add(f"{name}.register_hook({hook})")
        return
    # Hooks on the node of a leaf live as long as the node.
    lines.add(f"{name}_node = torch.autograd.graph.get_gradient_edge({name}).node")
    register = "register_prehook" if leaf.sleep.at == "accumulate_pre" else "register_hook"
    lines.add(f"{name}_node.{register}({hook})")


def sleep_in_argument(lines: Lines, parts: Parts, op: Op, name: str) -> None:
    """Lines that let a hook on the first input of an operation sleep, if it does."""
    if op.sleep is None or op.sleep.at != "argument":
        return
    with lines.block(f"if {name}.requires_grad:"):
        lines.add(f"{name}.register_hook({_hook(parts, op.sleep.seconds)})")


def sleep_in_result(lines: Lines, parts: Parts, op: Op, name: str) -> None:
    """Lines that let what an operation made sleep, if it does."""
    if op.sleep is None or op.sleep.at == "argument":
        return
    hook = _hook(parts, op.sleep.seconds)
    if op.sleep.at == "result":
        lines.add(f"{name}.register_hook({hook})")
        return
    parts.use("import torch")
    parts.helper("SleepInBackward", _SLEEP_IN_BACKWARD)
    inner = hook if op.sleep.at == "backward" else "Sleeping()"
    lines.add(f"{name} = SleepInBackward.apply({name}, {inner})")
    if op.sleep.at == "node_pre":
        lines.add(f"{name}.grad_fn.register_prehook({hook})")
    elif op.sleep.at == "node_post":
        lines.add(f"{name}.grad_fn.register_hook({hook})")


def passes_that_may_fail(
    lines: Lines, parts: Parts, backward: Backward, call: str, first: int
) -> None:
    """Passes of which the first has number ``first``; ``call`` is one of them, but for
    ``retain_graph`` and what follows."""
    parts.helper("show_error", _SHOW_ERROR)
    end, every_s = first + backward.times, backward.every_s
    if every_s is not None:
        parts.use("import time")
        with lines.block("def run_pass(number):"):
            begun = f"(number - {first})" if first else "number"
            lines.add(f"time.sleep({begun} * {every_s!r})")
            _pass(lines, f"{call}, retain_graph=True)")
        numbers = f"range({first}, {end})"
        lines.add(f"together([lambda number=number: run_pass(number) for number in {numbers}])")
        return
    retain = "True" if backward.retain_graph else f"number < {end - 1}"
    with lines.block(f"for number in range({first}, {end}):"):
        _pass(lines, f"{call}, retain_graph={retain})")


def _pass(lines: Lines, call: str) -> None:
    with lines.block("try:"):
        lines.add(call, 'show_gradients(f"{name}, pass {number}", context_id)')
    with lines.block("except Exception as error:"):
        lines.add('show_error(f"{name}, pass {number}", error)')
