"""The single-process reference, told what it may not find out by itself about a simulation."""

from __future__ import annotations

from typing import Any

from model.reference import JointReference
from real.autograd.node_abi import MEMORY, node_abi
from sim.scheduler import SimRuntime


def joint_reference(
    runtime: SimRuntime | None = None, *, exact: bool = False, fork_always: bool = False
) -> JointReference:
    """An observer that compares every backward pass of a run; see :class:`JointReference`.

    Give it the runtime now, or with :func:`attach` once there is one.
    """
    reference = JointReference(runs_user_code=has_hooks, exact=exact, fork_always=fork_always)
    if runtime is not None:
        attach(reference, runtime)
    return reference


def attach(reference: JointReference, runtime: SimRuntime) -> None:
    """Let ``reference`` name virtual times, and not wait where nothing can happen any more."""
    reference.clock = runtime.now
    reference.isolate = runtime.forbid_waiting


def has_hooks(node: Any) -> bool:
    """Whether anything was registered on an autograd node, ``retain_grad`` included."""
    abi = node_abi()
    _, *hooks = abi.read_node(MEMORY, abi.pointer(node))
    return any(hooks)
