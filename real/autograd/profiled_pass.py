"""A backward pass under the profiler of the task that starts it.

torch records the call of ``backward`` and each node that runs on the worker of that call,
whichever thread runs it (torch/csrc/distributed/autograd/autograd.cpp, and the thread-local state
that a graph task takes along). Compiled nodes record themselves once the profiler is on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from squall.real.rpc.profiling import LegacyProfiler, profiler_of
from squall.real.runtime import current_task

if TYPE_CHECKING:
    from squall.real.autograd.graph_task import GraphTask, NodeQueue
    from squall.real.autograd.input_buffer import InputBuffer
    from squall.real.autograd.node import Node

    Evaluate = Callable[[GraphTask, Node, InputBuffer, NodeQueue], None]

PASS = "torch::distributed::autograd::backward"
#: nodes with a name of this beginning are not compiled here, and record nothing by themselves
_OURS = "torch::distributed::autograd::"


def current_profiler() -> LegacyProfiler | None:
    """The profiler of the running task, if it has one."""
    return profiler_of(current_task())


@contextlib.contextmanager
def pass_range(profiler: LegacyProfiler) -> Iterator[None]:
    """The pass, as a range of the profile."""
    handle = profiler.push(PASS)
    try:
        yield
    finally:
        profiler.pop(handle)


def in_ranges(profiler: LegacyProfiler, evaluate_function: Evaluate) -> Evaluate:
    """``evaluate_function``, with a range for each send and recv function."""

    def evaluate(graph_task: GraphTask, func: Node, inputs: InputBuffer, queue: NodeQueue) -> None:
        name = func.name()
        if not name.startswith(_OURS):
            evaluate_function(graph_task, func, inputs, queue)
            return
        handle = profiler.push(name)
        try:
            evaluate_function(graph_task, func, inputs, queue)
        finally:
            profiler.pop(handle)

    return evaluate
