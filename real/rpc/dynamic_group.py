"""Groups that workers join and leave at any time: ``init_rpc`` without ``world_size``.

One worker at a time joins or leaves, and tells all others before the next one may
(torch/distributed/rpc/backend_registry.py: _group_membership_management,
api.py: _update_group_membership).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from squall.real.rpc.agent import RpcAgent
from squall.real.rpc.all_gather import _init_rpc_states
from squall.real.rpc.calls import rpc_sync
from squall.real.rpc.devices import check_device_maps, tell_devices_anew
from squall.real.rpc.rendezvous import MIXED_GROUP
from squall.real.rpc.state import rpc_state
from squall.real.rpc.wire_names import label_module
from squall.real.rpc.worker_info import Membership, WorkerInfo, check_worker_info
from squall.real.worker import current_worker

if TYPE_CHECKING:
    from squall.real.process import Process
    from squall.real.rpc.options import TensorPipeRpcBackendOptions
    from squall.real.rpc.store import Store

label_module(__name__, "membership")

_MEMBERS = "dynamic members"


@contextlib.contextmanager
def _turn(store: Store) -> Iterator[None]:
    """Whoever comes first changes the group first; the others wait."""
    ticket = store.add("membership/tickets", 1)
    if ticket > 1:
        store.wait([f"membership/{ticket - 1}/over"])
    try:
        yield
    finally:
        store.set(f"membership/{ticket}/over", True)


def count_process(worker: Process, store: Store, rank: int) -> None:
    """Number the processes that join the group under one rank, one after the other: ids that they
    make differ, as those of a worker that was restarted do. Others remember those of the one before."""
    before = store.add(f"membership/processes/{rank}", 1) - 1
    worker.incarnation = max(worker.incarnation, before)


def join_group(
    store: Store, name: str, rank: int, options: TensorPipeRpcBackendOptions
) -> RpcAgent:
    """Start this worker's agent and make it known to all workers that are in the group by now.

    Raises RuntimeError if the name or the rank is taken, or the group is a static one, and
    ValueError if its device maps are not valid.
    """
    info = check_worker_info(name, rank)
    worker = current_worker()
    with _turn(store):
        if store.peek("world_size") is not None:
            raise RuntimeError(MIXED_GROUP)
        others: tuple[WorkerInfo, ...] = store.peek(_MEMBERS, ())
        for other in others:
            if name == other.name or rank == other.id:
                raise RuntimeError(
                    f"RPC worker name {name} is not unique. Workers {other.id} and {rank} share it"
                    if name == other.name
                    else f"rank argument {rank} is taken by another worker of the group"
                )
        tell_devices_anew(store, name, rank, options)
        devices = check_device_maps(store, (*others, info), name, static=False)
        agent = RpcAgent(
            worker,
            info=info,
            store=store,
            members=Membership((*others, info)),
            num_worker_threads=options.num_worker_threads,
            rpc_timeout_s=options.rpc_timeout,
            is_static_group=False,
        )
        agent.use_devices(devices)
        try:
            _init_rpc_states(agent)
            for other in others:
                rpc_sync(other, _update_group_membership, args=(info, True))
        except BaseException:
            agent.shutdown()
            worker.reset_agent()
            raise
        store.set(_MEMBERS, (*others, info))
    return agent


def leave_group(agent: RpcAgent, timeout: float) -> None:
    """Tell all others, and block until no call of this worker is in flight.

    ``timeout`` in seconds, 0 for none. Raises RuntimeError.
    """
    store, info = agent.store, agent.info
    with _turn(store):
        remaining = tuple(m for m in agent.get_worker_infos() if m != info)
        for other in remaining:
            rpc_sync(other, _update_group_membership, args=(info, False))
        agent.join(shutdown=True, timeout=timeout)
        store.set(_MEMBERS, remaining)


def _update_group_membership(info: WorkerInfo, is_join: bool) -> None:
    """Runs on every other worker of the group."""
    worker = current_worker()
    agent = worker.agent
    if agent is None:
        return
    members = [member for member in agent.get_worker_infos() if member != info]
    if is_join:
        members.append(info)
    agent.members = Membership(members)
    agent.use_devices(check_device_maps(agent.store, members, agent.info.name, static=False))
    rpc_state(worker).all_worker_names = agent.members.names
