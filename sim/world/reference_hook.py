"""The single-process reference of a simulated run.

``model`` knows no simulator: the clock, and which nodes run user code, are handed to it here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch.autograd.graph import saved_tensors_hooks

from squall.model.one_process.reference import JointReference
from squall.model.program.compare import Tolerance
from squall.real.autograd.node_abi import MEMORY, node_abi
from squall.sim.world.scheduler import SimRuntime


def joint_reference(
    *,
    exact: bool = False,
    tolerance: Tolerance | None = None,
    fork_always: bool = False,
    rehearse: Callable[[], AbstractContextManager[None]] | None = None,
) -> JointReference:
    """An observer that compares every backward pass of a run; see :class:`JointReference`.

    :func:`attach` gives it the runtime, once there is one.
    """
    before = _SavedTensorsHooks.entered

    def runs_user_code(node: Any) -> bool:
        # Nothing tells which nodes saved tensors under hooks: once there are any, all may have.
        return _SavedTensorsHooks.entered != before or has_hooks(node)

    return JointReference(
        runs_user_code=runs_user_code,
        exact=exact,
        tolerance=tolerance,
        fork_always=fork_always,
        rehearse=rehearse,
    )


def attach(reference: JointReference, runtime: SimRuntime) -> None:
    """Let ``reference`` name virtual times, and not wait where nothing can happen any more."""
    reference.clock = runtime.now
    reference.isolate = runtime.forbid_waiting


class _SavedTensorsHooks:
    """Counts how often anybody began to save tensors under hooks, as checkpointing does."""

    entered = 0
    enter = saved_tensors_hooks.__enter__

    @staticmethod
    def count(hooks: saved_tensors_hooks) -> None:
        _SavedTensorsHooks.entered += 1
        _SavedTensorsHooks.enter(hooks)


saved_tensors_hooks.__enter__ = _SavedTensorsHooks.count  # type: ignore[method-assign]


def has_hooks(node: Any) -> bool:
    """Whether anything was registered on an autograd node, ``retain_grad`` included."""
    abi = node_abi()
    _, *hooks = abi.read_node(MEMORY, abi.pointer(node))
    return any(hooks)
