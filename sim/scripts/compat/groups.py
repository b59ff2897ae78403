"""Process groups: ``init_process_group`` and what asks about groups, in virtual time."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from types import FrameType
from typing import Any, NamedTuple

import torch
import torch.distributed as real_distributed
from torch import Tensor

from squall.model.events.run_parts import Stall
from squall.real.future import Future
from squall.real.rpc.rendezvous import store_key
from squall.real.rpc.store import Store, StoreTimeoutError
from squall.real.worker import Worker, current_worker
from squall.sim.scripts import group as members
from squall.sim.scripts import groups as shared
from squall.sim.scripts.backends import batch_of
from squall.sim.scripts.call import Call, Names
from squall.sim.scripts.call_names import Registered, names
from squall.sim.scripts.collectives import Operation, Operations, never_formed
from squall.sim.scripts.compat import stores
from squall.sim.scripts.compat.process import (
    SimProcess,
    current_process,
    current_process_or_none,
    meeting,
    process_of,
)
from squall.sim.scripts.group import Wait
from squall.sim.scripts.groups import DEFAULT_TIMEOUT_S
from squall.sim.scripts.unended import forget, note, over
from squall.sim.world.deadlock import stalled
from squall.sim.world.network import Network
from squall.sim.world.pieces import POINT_TO_POINT, Connections, Part, Piece, Tag
from squall.sim.world.places import line_of, user_place
from squall.sim.world.stack_reading import Rank, Reading, Thread, reads

_GROUPS, _REGISTERED = "process groups", "registered"
#: the name of the first group
DEFAULT = "default_pg"
NON_MEMBER = real_distributed.GroupMember.NON_GROUP_MEMBER


class Given(NamedTuple):
    """Tensors that nobody else has."""

    tensors: list[Tensor]

    @property
    def size_bytes(self) -> int:
        return sum(each.numel() * each.element_size() for each in self.tensors)


class Groups(shared.Groups[Given]):
    """Of all processes of a run."""

    def ending(self, worker: Worker) -> str:
        process = process_of(worker)
        return "the fault plan ended it" if process is not None and process.crashed else ""


def _groups_of(process: SimProcess) -> Groups:
    table = process.group
    if table.groups is None:
        stall = lambda: stalled(table.runtime)  # noqa: E731
        table.groups = Groups(table.runtime, table.found, stall, table.backend)
    found: Groups = table.groups
    return found


class GroupHandle:
    """One process's handle of a group. ``ranks`` are global; ``rank`` is its place among them."""

    # Which PyTorch's barrier and monitored barrier ask for.
    bound_device_id = None
    _device_types = (torch.device("cpu"),)

    def __init__(
        self,
        store: Store,
        name: str,
        ranks: Sequence[int],
        rank: int,
        backend: str,
        timeout_s: float,
    ) -> None:
        self.store = store
        self.group_name = name
        self.ranks = list(ranks)
        self._rank = rank
        self.operations = Operations(rank, len(ranks))
        self.backend = backend
        self.timeout_s = timeout_s
        self._number = 0
        #: by member: the last message to it that may not have been read from memory yet
        self.sending: dict[int, Future[Any]] = {}
        self._worker = current_worker()
        process = current_process()
        self.all = _groups_of(process)
        made_of = [] if name == DEFAULT else self.ranks
        self.members = self._shared(made_of)
        self.all.made(self.members, f"rank {ranks[rank]}", made_of, line_of(sys._getframe()))
        process.at_end.append(self._end)
        self.members.members[rank] = self._worker
        self.members.connections.open(rank)
        if len(self.members.members) == self.size():
            self.members.connections.opened()
        store.set(f"here/{rank}", True)
        for member in range(self.size()):
            self._join(member)

    def _shared(self, made_of: list[int]) -> members.ProcessGroup[Given]:
        """What all members have in common."""
        world = self._worker.world
        assert isinstance(world, Network), "scripts run on a simulated one"
        made = members.ProcessGroup(self.all, self.group_name, self.size())
        made.is_made_of(made_of, str(user_place(sys._getframe())))
        own = Store(world.runtime)  # members of several groups are at the same places
        made.connections = Connections(world, own, made, dict(enumerate(self.ranks)))
        found: members.ProcessGroup[Given] = self.store.first("members", made)
        if found is made:
            self.all.groups.append(made)
        return found

    def _join(self, member: int) -> None:
        """Raises DistStoreError if a member does not come in time."""
        try:
            self.store.get(f"here/{member}", self.timeout_s)
        except StoreTimeoutError:
            come = sorted(self.ranks[each] for each in self.members.members)
            there = f"ranks {come} of {self.size()} have come to {self.members.ledger.of}"
            self.all.stalls(Stall("error", [there, *stalled(self.all.runtime).lines]))
            raise never_formed(self.timeout_s, len(come), self.size()) from None

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return len(self.ranks)

    def name(self) -> str:
        return self.backend

    def next_number(self) -> int:
        """The number of the next collective: the same on all members if they agree on the order."""
        self._number += 1
        return self._number

    def member(self, global_rank: int) -> int:
        """Raises ValueError if that rank is not in the group."""
        if global_rank not in self.ranks:
            raise ValueError(f"Global rank {global_rank} is not part of group {self!r}")
        return self.ranks.index(global_rank)

    def leave(self) -> None:
        """Members that wait for this one learn that it has gone."""
        self.all.leaves(self.members, self._rank)
        self.all.left(self.members, self._rank)

    def _end(self) -> None:
        """Its process has ended."""
        process = process_of(self._worker)
        if process is not None and not process.exit_code:
            self.all.leaves(self.members, self._rank)
        self.all.left(self.members, self._rank)

    # -- operations -----------------------------------------------------------------------

    def begin(
        self,
        operation: Operation,
        tag: Tag,
        timeout_s: float | None = None,
        args: Sequence[Any] = (),
    ) -> Begun:
        """Send what this member gives, as it is now, in a call with ``args``."""
        kind, number = tag
        # No variable keeps this frame, which would keep whatever its callers have.
        now_s = self.all.runtime.env.now
        gives, takes = operation.parts or ((), ())
        told, batch = Names(), 0
        if kind == POINT_TO_POINT:
            batch = batch_of(sys._getframe())
            kind = "send" if operation.pieces else "recv"
        else:
            told = names(sys._getframe(), args, registered())
        call = Call(
            self.ranks[self._rank], self._rank, kind, number, operation.agreed, line_of(sys._getframe()),
            now_s, gives, takes, told,
        )  # fmt: skip
        alike = {id(given): given for given in operation.pieces.values()}
        copies = {key: Given(copied(given)) for key, given in alike.items()}
        own = operation.own
        if own is not None:
            own = copies[id(own)].tensors if id(own) in copies else copied(own)
        answer: Future[Any] = Future(what="a collective")
        wait: Wait[Given] = Wait(
            self._worker, answer, self._rank, tag, [*operation.wants], [*operation.readers],
            self.timeout_s if timeout_s is None else timeout_s, call,
            lambda error, got: answer.mark_completed((error, got)), batch,
        )  # fmt: skip
        pieces = {dst: Part(content=copies[id(given)]) for dst, given in operation.pieces.items()}
        self.all.do(self.members, wait, pieces, operation.tells)
        return Begun(self, operation, own, wait)

    def __repr__(self) -> str:
        return f"<process group {self.group_name} {self.ranks}>"


class Begun(NamedTuple):
    """An operation that ``own`` member has begun, and what it gives itself."""

    group: GroupHandle
    operation: Operation
    own: list[Tensor] | None
    wait: Wait[Given]

    def end(self) -> dict[int, list[Tensor]]:
        """Wait for the others and finish it: what has come, by member. Raises RuntimeError for what goes wrong."""
        error, got = self.wait.question.wait()
        if error is not None:
            raise RuntimeError(error)
        came: dict[int, Piece[Given]] = got
        values = {src: piece.content.tensors for src, piece in came.items() if piece.content}
        if self.own is not None:
            values[self.group.rank()] = self.own
        with torch.no_grad():
            self.operation.finish(dict(sorted(values.items())))
        return values

    def limit(self, timeout_s: float | None) -> None:
        """Somebody waits for it from now on, so long, or as long as the group lets him."""
        group = self.group
        limit_s = group.timeout_s if timeout_s is None else timeout_s
        group.all.limit(group.members, self.wait.worker, self.wait.question, limit_s)


def copied(given: list[Tensor]) -> list[Tensor]:
    """What is given, as it is now."""
    return [each.detach().clone() for each in given]


@reads(__name__, "Begun.end")
def _waits(thread: Thread, frame: FrameType) -> Reading:
    """A member waits for others."""
    begun: Begun = frame.f_locals["self"]
    group, wait = begun.group.members, begun.wait
    wanted = group.wanted(wait)
    ends = tuple(Rank(group.ranks[member]) for member in wanted)
    return Reading("collective", group.awaited(wait, wanted), "", ends)


@reads(__name__, "Group._join")
def _joins(thread: Thread, frame: FrameType) -> Reading:
    """A member waits for another one to come."""
    own = frame.f_locals["self"]
    rank = own.ranks[frame.f_locals["member"]]
    called = thread.called() or "the same"
    return Reading("collective", f"rank {rank} to call {called}", "", (Rank(rank),))


@cache
def registered() -> Registered:
    """Those that the processes of scripts have registered since this was first asked for."""

    def counts() -> Counter[str] | None:
        process = current_process_or_none()
        return None if process is None else process.locals.setdefault(_REGISTERED, Counter())

    return Registered(counts)


class _Groups:
    """The groups that one process knows."""

    def __init__(self) -> None:
        self.default: GroupHandle | None = None
        self.made = 0
        self.inits: dict[str, int] = {}


def groups() -> _Groups:
    own = current_worker().locals
    found: _Groups | None = own.get(_GROUPS)
    if found is None:
        found = own[_GROUPS] = _Groups()
    return found


def resolve(group: Any) -> GroupHandle:
    """The group meant; None: the default one. Raises ValueError as torch does."""
    if isinstance(group, GroupHandle):
        return group
    default = groups().default
    if default is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    if group is None or isinstance(group, _WorldMeta):
        return default
    if group == NON_MEMBER:
        raise ValueError("Invalid process group specified")
    raise TypeError(f"not a process group: {group!r}")


class _WorldMeta(type):
    @property
    def WORLD(cls) -> GroupHandle | None:  # noqa: N802 - torch's name
        """The default group of whoever asks."""
        return groups().default


class group(metaclass=_WorldMeta):  # noqa: N801 - torch's name
    """``torch.distributed.group``."""


class GroupMember(metaclass=_WorldMeta):
    """``torch.distributed.GroupMember``."""

    NON_GROUP_MEMBER = NON_MEMBER


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Make the default group: blocks until all ``world_size`` processes have come.

    Raises ValueError as torch does if it exists, or if the init method lacks something.
    """
    worker = current_worker()
    known = groups()
    if known.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    meeting(rank, world_size)
    if store is not None:
        if init_method is not None:
            raise AssertionError("Cannot specify both init_method and store.")
        if world_size < 1:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
        key = f"{store._place} store"
    else:
        key = store_key(init_method or "env://", rank, world_size, worker.world.schemes)
        if rank == -1:
            rank = int(os.environ["RANK"])
        if world_size == -1:
            world_size = int(os.environ["WORLD_SIZE"])
    shared = worker.world.store(f"{key}/process groups")
    number = known.inits.get(key, 0)
    known.inits[key] = number + 1
    if rank >= world_size or rank < 0:
        raise ValueError(f"rank {rank} is not in a group of {world_size} processes")
    own = shared.prefixed(f"default {number}")
    if own.add(f"rank/{rank}", 1) > 1:
        raise RuntimeError(f"rank {rank} has joined the process group already")
    if worker.agent is None:
        worker.id = rank
    known.default = GroupHandle(
        own,
        DEFAULT,
        range(world_size),
        rank,
        str(backend or "gloo").lower(),
        DEFAULT_TIMEOUT_S if timeout is None else timeout.total_seconds(),
    )
    note("process groups", known.default)
    process = current_process_or_none()
    if worker.agent is None and process is not None and process.group.on_grouped is not None:
        process.group.on_grouped(process, world_size)


def destroy_process_group(group: Any = None) -> None:
    """Forget a group; the default one if None. Raises AssertionError if there is none."""
    known = groups()
    if group is None or group is known.default:
        assert known.default is not None, "Process group cannot be None"
        known.default.leave()
        known.default = None
        forget("process groups")
    elif isinstance(group, GroupHandle):
        over(group)
        group.leave()


def is_initialized() -> bool:
    return groups().default is not None


def get_rank(group: Any = None) -> int:
    """This process's rank in the group; -1 if it is no member."""
    return -1 if group == NON_MEMBER else resolve(group).rank()


def get_world_size(group: Any = None) -> int:
    return -1 if group == NON_MEMBER else resolve(group).size()


def get_backend(group: Any = None) -> str:
    return resolve(group).backend


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some ranks; all processes of the default group must call this."""
    default = resolve(None)
    known = groups()
    known.made += 1
    members = sorted(default.ranks if ranks is None else ranks)
    for member in members:
        if not 0 <= member < default.size():
            raise ValueError(
                f"rank {member} of the new group is outside the world_size, {default.size()}"
            )
    if len(set(members)) != len(members):
        raise RuntimeError("the new group's ranks contain a duplicate")
    if default.rank() not in members:
        return NON_MEMBER
    name = str(known.made) if not use_local_synchronization else f"{members}"
    made = GroupHandle(
        default.store.prefixed(f"group {name}"),
        name,
        members,
        members.index(default.rank()),
        (backend or default.backend).lower(),
        DEFAULT_TIMEOUT_S if timeout is None else timeout.total_seconds(),
    )
    note("process groups", made)
    return made


def get_process_group_ranks(group: Any = None) -> list[int]:
    return list(resolve(group).ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    ranks = resolve(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    made = resolve(group)
    return global_rank if made is _get_default_group() else made.member(global_rank)


def _get_default_group() -> GroupHandle:
    """Raises ValueError if there is none."""
    return resolve(None)


def _get_default_store() -> stores.Store:
    """The store of the default group. Raises ValueError if there is none."""
    own, world = resolve(None).store, current_worker().world
    number = own.first("number for users", world.store("default stores").add("next", 1))
    return stores.Store(f"default {number}")


_PUBLIC: tuple[Callable[..., Any], ...] = (
    _get_default_group,
    _get_default_store,
    destroy_process_group,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    new_group,
)
NAMES: dict[str, Any] = {function.__name__: function for function in _PUBLIC}
NAMES.update(group=group, GroupMember=GroupMember)
