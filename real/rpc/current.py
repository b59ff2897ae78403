"""The agent of the running worker, or torch's error where there is none."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from squall.real.rpc.agent import RpcAgent
from squall.real.rpc.rref_session import NO_AGENT
from squall.real.rpc.time_limit import seconds
from squall.real.tracing import TIMEOUT_SET
from squall.real.worker import Worker, current_worker_or_none

P = ParamSpec("P")
R = TypeVar("R")

#: torch's tests look for "RPC has not been initialized" at the beginning
_NOT_INITIALIZED = "RPC has not been initialized. Call torch.distributed.rpc.init_rpc first."


def initialized() -> tuple[Worker, RpcAgent]:
    """The running worker and its agent. Raises RuntimeError before ``init_rpc``."""
    worker = current_worker_or_none()
    if worker is None or worker.agent is None:
        raise RuntimeError(_NOT_INITIALIZED)
    return worker, worker.agent


def require_initialized(func: Callable[P, R]) -> Callable[P, R]:
    """Let ``func`` run only between ``init_rpc`` and ``shutdown``; else RuntimeError."""

    @functools.wraps(func)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        initialized()
        return func(*args, **kwargs)

    return wrapper


def is_current_rpc_agent_set() -> bool:
    worker = current_worker_or_none()
    return worker is not None and worker.agent is not None


def get_current_rpc_agent() -> RpcAgent:
    """Raises RuntimeError before ``init_rpc``."""
    worker = current_worker_or_none()
    agent = worker.agent if worker is not None else None
    if agent is None:
        raise RuntimeError(NO_AGENT)
    return agent


def enable_gil_profiling(flag: bool) -> None:
    """Let the agent's metrics include waits for the interpreter's lock. Raises RuntimeError."""
    get_current_rpc_agent().gil_profiling = bool(flag)


def get_rpc_timeout() -> float:
    """The default timeout of calls, in seconds; 0 means none. Raises RuntimeError."""
    return get_current_rpc_agent().rpc_timeout_s


def set_rpc_timeout(timeout: float) -> None:
    """Set the default timeout of calls made from now on, in seconds; 0 for none."""
    agent = get_current_rpc_agent()
    agent.rpc_timeout_s = float(seconds(timeout))
    tracer = agent.worker.tracer
    if tracer.enabled:
        tracer.emit(TIMEOUT_SET, agent.rpc_timeout_s)
