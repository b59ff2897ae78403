"""Gathering an object from every worker, over RPC itself (torch/distributed/rpc/api.py).

The worker with the smallest name leads: the others call it with their objects, and when it has
all of them it calls each with the result.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from squall.real.rpc.calls import rpc_async, rpc_sync
from squall.real.rpc.constants import DEFAULT_SHUTDOWN_TIMEOUT_S, UNSET_RPC_TIMEOUT
from squall.real.rpc.current import initialized, is_current_rpc_agent_set
from squall.real.rpc.gather_states import AllGatherStates, SequenceId
from squall.real.rpc.request_callback import RequestCallback
from squall.real.rpc.state import RpcState, replaceable, rpc_state
from squall.real.rpc.wire_names import label_module
from squall.real.worker import current_worker

if TYPE_CHECKING:
    from squall.real.rpc.agent import RpcAgent

label_module(__name__, "gather")

logger = logging.getLogger(__name__)

#: stands in a sequence id for "all workers of the group"
_EVERYBODY = "*"


def _set_and_start_rpc_agent(agent: RpcAgent) -> None:
    """Make ``agent`` the running worker's and start it."""
    worker = current_worker()
    worker.set_agent(agent)
    if worker.request_callback is None:
        worker.request_callback = RequestCallback(worker)
    agent.start()


def _init_rpc_states(agent: RpcAgent) -> None:
    """Take ``agent`` into use and start it, unless its backend has done so."""
    state = rpc_state(current_worker())
    state.all_worker_names = (
        agent.members.names
        if hasattr(agent, "members")
        else tuple(sorted(info.name for info in agent.get_worker_infos()))  # of another backend
    )
    if not is_current_rpc_agent_set():
        state.gather_counts.clear()
        state.gathers.clear()
        replaceable(current_worker(), _set_and_start_rpc_agent)(agent)


def _participants(state: RpcState, names: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(sorted(set(names))) if names else state.all_worker_names


def _gather_to_leader(
    sequence_id: SequenceId, worker_name: str, obj: Any, worker_names: tuple[str, ...] | None = None
) -> None:
    """Runs on the leader. Raises AssertionError for a worker that is not expected (again)."""
    worker = current_worker()
    state = rpc_state(worker)
    names = _participants(state, worker_names)
    if worker_name not in names:
        raise AssertionError(f"{worker_name} is not expected by leader.")
    key, number = sequence_id
    with state.gather_lock:
        gather = state.gathers.get(sequence_id)
        if gather is None:
            if state.gather_counts.get(key, 0) > number:
                raise RuntimeError(f"all_gather {number} of {key} is over on its leader")
            gather = state.gathers[sequence_id] = AllGatherStates(
                worker.runtime, f"all_gather {number} of {key}"
            )
        if worker_name in gather.gathered_objects:
            raise AssertionError(f"{worker_name} reported intent sequence id {sequence_id} twice.")
        gather.gathered_objects[worker_name] = obj
        complete = len(gather.gathered_objects) == len(names)
    if complete:
        gather.proceed_signal.set()


def _broadcast_to_followers(sequence_id: SequenceId, objects_map: dict[str, Any]) -> None:
    """Runs on each follower. Raises AssertionError if it is told twice."""
    state = rpc_state(current_worker())
    with state.gather_lock:
        gather = state.gathers.get(sequence_id)
        if gather is None:  # given up already: its caller has an error
            return
        if gather.proceed_signal.is_set():
            raise AssertionError(f"Termination signal sequence id {sequence_id} got set twice.")
        gather.gathered_objects = objects_map
    gather.proceed_signal.set()


def _receive_broadcast(sequence_id: SequenceId, objects_map: dict[str, Any]) -> None:
    replaceable(current_worker(), _broadcast_to_followers)(sequence_id, objects_map)


def _all_gather(
    obj: Any, worker_names: Iterable[str] | None = None, timeout: float = UNSET_RPC_TIMEOUT
) -> dict[str, Any]:
    """Give every worker the objects of all, by name; all of them have to call this.

    ``worker_names``: who takes part (None: everybody). ``timeout`` in seconds limits each call
    and each wait: -1 the default of calls and no limit for the wait, 0 no limit at all.
    Raises RuntimeError when time is up, and then nothing of this gather is left behind.
    """
    return _gather(obj, worker_names, timeout, share=True)


def _gather(
    obj: Any, worker_names: Iterable[str] | None, timeout: float, *, share: bool
) -> dict[str, Any]:
    """``share`` False: followers learn only that all have come."""
    worker, agent = initialized()
    state = rpc_state(worker)
    names = _participants(state, worker_names)
    everybody = names == state.all_worker_names
    sent_names = None if everybody else names
    key = _EVERYBODY if everybody else ",".join(names)
    self_name = agent.info.name
    leader_name = names[0]

    signal_timeout: float | None = None
    rpc_timeout = timeout
    if timeout == UNSET_RPC_TIMEOUT:
        rpc_timeout = agent.rpc_timeout_s
    elif timeout != DEFAULT_SHUTDOWN_TIMEOUT_S:
        signal_timeout = timeout

    with state.gather_lock:
        number = state.gather_counts.get(key, 0)
        state.gather_counts[key] = number + 1
        sequence_id = (key, number)
        if sequence_id not in state.gathers:
            state.gathers[sequence_id] = AllGatherStates(
                worker.runtime, f"all_gather {number} of {key}"
            )
        gather = state.gathers[sequence_id]

    try:
        if leader_name == self_name:
            _gather_to_leader(sequence_id, self_name, obj, sent_names)
        else:
            rpc_sync(
                leader_name,
                _gather_to_leader,
                args=(sequence_id, self_name, obj, sent_names),
                timeout=rpc_timeout,
            )
        if not gather.proceed_signal.wait(signal_timeout):
            raise RuntimeError(f"timed out in _all_gather after {signal_timeout:.2f} seconds")
        if leader_name == self_name:
            result = gather.gathered_objects if share else {}
            _broadcast(sequence_id, names[1:], result, rpc_timeout)
        return gather.gathered_objects
    finally:
        with state.gather_lock:
            state.gathers.pop(sequence_id, None)


def _broadcast(
    sequence_id: SequenceId, followers: tuple[str, ...], result: dict[str, Any], timeout: float
) -> None:
    calls = {
        name: rpc_async(name, _receive_broadcast, args=(sequence_id, result), timeout=timeout)
        for name in followers
    }
    errors: list[tuple[str, Exception]] = []
    for name, call in calls.items():
        try:
            call.wait()
        except RuntimeError as error:
            errors.append((name, error))
    if errors:
        raise RuntimeError(
            f"Followers {[name for name, _ in errors]} timed out in _all_gather "
            f"after {timeout:.2f} seconds. The first exception is {errors[0][1]}"
        )


def _barrier(worker_names: Iterable[str]) -> None:
    """Block until all workers of these names are here. A failure is logged, not raised."""
    initialized()
    try:
        _gather(None, set(worker_names), UNSET_RPC_TIMEOUT, share=False)
    except RuntimeError:
        logger.exception("Failed to complete barrier")


def _start_barrier(timeout: float) -> None:
    """Block until every worker of a new group is here, having called each other once."""
    _gather(None, None, timeout, share=False)


def _wait_all_workers(timeout: float = DEFAULT_SHUTDOWN_TIMEOUT_S) -> None:
    """Block until every worker of the group is here. Raises RuntimeError when time is up."""
    initialized()
    try:
        _gather(None, None, timeout, share=False)
    except RuntimeError:
        logger.exception("Failed to respond to 'Shutdown Proceed' in time")
        raise
