"""What ``torch.distributed.rpc`` keeps in module globals, kept here once a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from enum import Enum

    from squall.real.process import Process
    from squall.real.rpc.gather_states import AllGatherStates, SequenceId
    from squall.real.rpc.overloads import Matches

P = ParamSpec("P")
R = TypeVar("R")

_STATE = "state of the public API"


class RpcState:
    """The public API's own state on one worker."""

    def __init__(self, worker: Process) -> None:
        #: how often this worker has called ``init_rpc``: each time is a group of its own
        self.init_count = 0
        #: names of the workers of the group, sorted
        self.all_worker_names: tuple[str, ...] = ()
        #: an RRef leak at shutdown is logged if True, raised if False
        self.ignore_rref_leak = True
        #: what pickles calls instead of the built-in pickler; see ``api._use_rpc_pickler``
        self.pickler: Any = None
        #: how to reduce objects of a class, for ``_InternalRPCPickler._register_reducer``
        self.class_reducers: dict[type, Callable[[Any], Any]] = {}
        #: the enum of backends, once the worker has registered one of its own
        self.backend_type: type[Enum] | None = None
        #: what a script has put in the place of functions of ``torch.distributed.rpc.api``
        self.replaced: dict[str, Callable[..., Any]] = {}
        self.gather_lock = worker.runtime.lock("all_gather")
        #: how many gathers of these names have started here
        self.gather_counts: dict[str, int] = {}
        self.gathers: dict[SequenceId, AllGatherStates] = {}
        #: the overloads that calls of torch's operators have meant
        self.matches: Matches = {}
        #: steps of all optimizers of the worker are taken one at a time
        self.optimizer_lock = worker.runtime.lock("optimizer")


def replaceable(worker: Process, function: Callable[P, R]) -> Callable[P, R]:
    """``function`` of the API, or what the worker's script has put in its place."""
    state: RpcState | None = worker.rpc_state
    if state is None or not state.replaced:
        return function
    return state.replaced.get(function.__name__, function)


def rpc_state(worker: Process) -> RpcState:
    """The state of ``worker``, made at the first call."""
    state: RpcState | None = worker.rpc_state
    if state is None:
        # Of several threads that come first at once, all get the state that is kept.
        state = worker.rpc_state = worker.locals.setdefault(_STATE, RpcState(worker))
    return state
