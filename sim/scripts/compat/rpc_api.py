"""``torch.distributed.rpc.api`` as a script sees it: with the module globals that PyTorch has there.

The engine keeps these values once a worker (:mod:`squall.real.rpc.state`): reading or setting
``api._ignore_rref_leak``, for instance, is about the running worker's.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from squall.real.rpc import all_gather, api
from squall.real.rpc.gather_states import AllGatherStates
from squall.real.rpc.internal import _internal_rpc_pickler
from squall.real.rpc.state import RpcState, rpc_state
from squall.real.worker import current_worker, current_worker_or_none
from squall.sim.scripts.compat.module_facades import WriteThroughFacade

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace


def _state() -> RpcState | None:
    worker = current_worker_or_none()
    return rpc_state(worker) if worker is not None else None


def _replaceable(function: Callable[..., Any]) -> Any:
    """The attribute that ``function`` is until the worker's script puts another in its place."""
    name = function.__name__

    def get(_: object) -> Callable[..., Any]:
        state = _state()
        return function if state is None else state.replaced.get(name, function)

    def put(_: object, value: Callable[..., Any]) -> None:
        replaced = rpc_state(current_worker()).replaced
        replaced[name] = value
        if value is function:
            del replaced[name]

    def restore(_: object) -> None:
        rpc_state(current_worker()).replaced.pop(name, None)

    return property(get, put, restore)


class RpcApi(WriteThroughFacade):
    """The module, whose globals of this kind are the running worker's."""

    _broadcast_to_followers = _replaceable(all_gather._broadcast_to_followers)
    _delete_all_user_and_unforked_owner_rrefs = _replaceable(
        api._delete_all_user_and_unforked_owner_rrefs
    )
    _set_and_start_rpc_agent = _replaceable(all_gather._set_and_start_rpc_agent)
    _wait_all_workers = _replaceable(all_gather._wait_all_workers)

    @property
    def _ignore_rref_leak(self) -> bool:
        state = _state()
        return True if state is None else state.ignore_rref_leak

    @_ignore_rref_leak.setter
    def _ignore_rref_leak(self, value: bool) -> None:
        rpc_state(current_worker()).ignore_rref_leak = value

    @property
    def _default_pickler(self) -> Any:
        state = _state()
        pickler = None if state is None else state.pickler
        return _internal_rpc_pickler if pickler is None else pickler

    @property
    def _ALL_WORKER_NAMES(self) -> set[str]:  # noqa: N802 - torch's name
        state = _state()
        return set() if state is None else set(state.all_worker_names)

    @property
    def _all_gather_sequence_id_to_states(self) -> dict[Any, AllGatherStates]:
        state = _state()
        return {} if state is None else state.gathers

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(RpcApi, name, None), property):
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if isinstance(getattr(RpcApi, name, None), property):
            object.__delattr__(self, name)
        else:
            super().__delattr__(name)


def make_rpc_api(space: ModuleSpace) -> ModuleType:
    return RpcApi(space, api, name="torch.distributed.rpc.api")
