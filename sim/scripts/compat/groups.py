"""Process groups: ``init_process_group`` and what asks about groups, in virtual time."""

from __future__ import annotations

import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import cache
from types import FrameType
from typing import Any

import torch
import torch.distributed as real_distributed
from torch import Tensor

from squall.model.events.names import code
from squall.model.events.run import Stall
from squall.real.future import Future
from squall.real.rpc.rendezvous import store_key
from squall.real.rpc.store import Store, StoreClosedError, StoreTimeoutError
from squall.real.runtime import Task, current_task
from squall.real.tracing import OPERATION_ENDED, OPERATION_STARTED
from squall.real.worker import current_worker
from squall.sim.scripts.call import Call
from squall.sim.scripts.call_names import Registered, names
from squall.sim.scripts.collectives import ABORTED, Operation, Operations, Values, too_late
from squall.sim.scripts.compat import stores
from squall.sim.scripts.compat.group_messages import (
    DEFAULT,
    NOTICED,
    SENT,
    GroupMessages,
    size_of,
)
from squall.sim.scripts.compat.process import SimProcess, current_process_or_none, meeting
from squall.sim.scripts.ledger import MismatchError, group_named
from squall.sim.scripts.made import forget, note, over
from squall.sim.world.network import Network
from squall.sim.world.pieces import POINT_TO_POINT, Tag
from squall.sim.world.places import line_of, user_place
from squall.sim.world.stack_reading import Rank, Reading, Thread, reads
from squall.sim.world.stuck import stalled

_GROUPS, _REGISTERED = "process groups", "registered"
DEFAULT_TIMEOUT_S = 1800.0
#: seconds after which an operation ends whose limit somebody else has
NEVER = math.inf
#: a key of what a member waits for, and in words
_AWAITED = re.compile(r"\d+/(?P<what>\w+)/\d+/(?P<kind>\w+)/(?P<number>\d+)/\d+$")
_OF_MESSAGES = {SENT: "a message of {} with tag {}", NOTICED: "{} to receive with tag {}"}
NON_MEMBER = real_distributed.GroupMember.NON_GROUP_MEMBER


class Group:
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
        #: whether an operation has run into its limit
        self.is_aborted = False
        #: messages received from a member by its name, before anybody asked for "any"
        self.taken: dict[tuple[int, int], int] = {}
        self.seen: dict[int, int] = {}
        self.received: dict[tuple[int, int], int] = {}
        #: messages sent to a member by its name
        self.sent: Counter[tuple[int, int]] = Counter()
        #: by member: the last message to it that may not have been read from memory yet
        self.sending: dict[int, Future[Any]] = {}
        worker = current_worker()
        assert isinstance(worker.world, Network), "scripts run on a simulated one"
        made_of = [] if name == DEFAULT else self.ranks
        #: what people are told that it is
        self.of = group_named(made_of, str(user_place(sys._getframe())))
        messages = GroupMessages(worker.world, store, name, ranks, self.of)
        self.messages: GroupMessages = store.first("messages", messages)
        self._process = current_process_or_none()
        if self._process is not None:
            self._process.at_end.append(self.leave)
        self.messages.open(rank)
        store.set(f"here/{rank}", True)
        for member in range(self.size()):
            self.from_member(member, f"here/{member}")

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

    def from_member(
        self, member: int, key: str, timeout_s: float | None = None, ended: str | None = None
    ) -> Any:
        """What has come from a member, or is there of it, under ``key``. Raises RuntimeError if it does not come in
        time, which is the group's by default, or the member has gone; ``ended``: the key of another one that has."""
        return self.awaited(key, timeout_s, ended or f"{self._rank}/gone/{member}")

    def awaited(self, key: str, timeout_s: float | None, ended: str | None = None) -> Any:
        """The same of whoever it is if ``ended`` is None."""
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        try:
            return self.store.get(key, None if limit_s == NEVER else limit_s, unless=ended)
        except StoreClosedError:
            raise self._closed(self.store.peek(ended or "")) from None
        except StoreTimeoutError:
            raise self.late("send" if f"/{NOTICED}/" in key else "recv", limit_s) from None

    def late(self, what: str, limit_s: float | None) -> RuntimeError:
        """What to raise as a ``send`` or ``recv`` operation has run into its limit."""
        process = current_process_or_none()
        if process is not None:
            process.group.stall = stalled(process.group.runtime).after(process.group.stall)
        self.is_aborted = True
        self.messages.abort(self._rank)
        return RuntimeError(too_late(what, limit_s or self.timeout_s))

    def take(self, member: int, key: str, timeout_s: float | None) -> Any:
        """As :meth:`from_member`, and it is forgotten."""
        self.messages.ask(self._rank, member, key)
        value = self.from_member(member, key, timeout_s)
        self.messages.forget(key)
        return value

    def check_there(self, member: int) -> None:
        """Raises RuntimeError if a member has gone."""
        if self.store.peek(f"{self._rank}/gone/{member}"):
            raise self._closed(member)

    def _closed(self, member: int) -> RuntimeError:
        if self.is_aborted:
            return RuntimeError(ABORTED)
        own, other = self.ranks[self._rank], self.ranks[member]
        return RuntimeError(f"[Rank {own}] Connection closed by peer (rank {other})")

    def leave(self) -> None:
        """Members that wait for this one learn that it has gone."""
        if self._process is not None and not self._process.exit_code:
            self.messages.ledger.left.add(self.ranks[self._rank])
            self._miss(self._process)
        self.messages.close(self._rank)

    def _miss(self, process: SimProcess) -> None:
        """Whether a member has left by itself without a call of others."""
        if missed := self.messages.ledger.missed():
            process.group.stall = Stall("mismatch", [missed]).after(process.group.stall)

    def begin(
        self, operation: Operation, tag: Tag, timeout_s: float | None = None
    ) -> Callable[[], list[Tensor]]:
        """Send what this member gives, as it is now; to be called is what waits for the others, so long, and
        gives the outputs."""
        kind, number = tag
        copies = {id(given): copied(given) for given in operation.pieces.values()}
        own = operation.own
        if own is not None:
            own = copies.get(id(own)) or copied(own)
        sent = [(dst, copies[id(given)]) for dst, given in operation.pieces.items()]
        begun = self.operation(kind, number, sum(size_of(given) for _, given in sent))
        for dst, given in sent:
            self.messages.send(self._rank, dst, tag, given)
        for member in operation.tells:
            self.messages.notice(self._rank, member, tag)

        ended, keys = self.messages.expect(self._rank, tag, operation.wants, operation.readers)

        def received() -> Values:
            came = [
                (member, self.from_member(member, name, timeout_s, ended))
                for name, member in keys.items()
            ]
            values = dict(came[: len(operation.wants)])
            if own is not None:
                values[self._rank] = own
            return dict(sorted(values.items()))

        def end() -> list[Tensor]:
            with begun, torch.no_grad():
                try:
                    values = received()
                except RuntimeError:
                    self.messages.ledger.give_up(number, self.ranks[self._rank])
                    raise
                finally:
                    self.messages.over(self._rank, tag)
                operation.finish(values)
            return operation.outputs

        return end

    def compare(self, operation: Operation, number: int, args: Sequence[Any]) -> None:
        """What this member calls, with ``args``, with what the others call under that number. The run ends if that does
        not go together, unless it is to go on."""
        process = self._process
        if process is None:
            return
        frame, now_s = sys._getframe(1), process.group.runtime.env.now
        gives, takes = operation.parts or ((), ())
        call = Call(
            self.ranks[self._rank], self._rank, operation.kind, number, operation.agreed, line_of(frame), now_s,
            gives, takes, names(frame, args, registered()),
        )  # fmt: skip
        try:
            self.messages.ledger.note(call)
        except MismatchError as error:
            process.group.found("mismatch", str(error))
        self._miss(process)

    def operation(self, kind: str, number: int, size_bytes: int) -> AbstractContextManager[None]:
        """One that sends so much has begun; to be entered until it ends."""
        emit = current_worker().tracer.emit
        emit(OPERATION_STARTED, self.group_name, self._rank, kind, number, size_bytes)
        return self.end_of(kind, number, current_task())

    @contextmanager
    def end_of(self, kind: str, number: int, begun_by: Task) -> Iterator[None]:
        emit = current_worker().tracer.emit
        try:
            yield
        except Exception as error:
            emit(OPERATION_ENDED, self.group_name, self._rank, kind, number, str(error))
            raise
        emit(OPERATION_ENDED, self.group_name, self._rank, kind, number, None)
        process = current_process_or_none()
        if process is not None:
            process.group.operations += 1

    def __repr__(self) -> str:
        return f"<process group {self.group_name} {self.ranks}>"


def copied(given: list[Tensor]) -> list[Tensor]:
    """What is given, as it is now."""
    return [each.detach().clone() for each in given]


@reads(__name__, "Group.from_member")
def _waits(thread: Thread, frame: FrameType) -> Reading:
    """A member waits for another one."""
    own = frame.f_locals["self"]
    rank = own.ranks[frame.f_locals["member"]]
    found = _AWAITED.match(frame.f_locals["key"])
    if found is not None and found["kind"] == POINT_TO_POINT:
        what = _OF_MESSAGES[found["what"]].format(f"rank {rank}", found["number"])
    else:
        called = thread.called() or (code(found["kind"]) if found else "the same")
        where = "" if own.group_name == DEFAULT else f" in {own.of}"
        what = f"rank {rank} to call {called}{where}"
    return Reading("collective", what, "", (Rank(rank),))


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
        self.default: Group | None = None
        self.made = 0
        self.inits: dict[str, int] = {}


def groups() -> _Groups:
    own = current_worker().locals
    found: _Groups | None = own.get(_GROUPS)
    if found is None:
        found = own[_GROUPS] = _Groups()
    return found


def resolve(group: Any) -> Group:
    """The group meant; None: the default one. Raises ValueError as torch does."""
    if isinstance(group, Group):
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
    def WORLD(cls) -> Group | None:  # noqa: N802 - torch's name
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
        shared, key = store.shared, "store"
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
    known.default = Group(
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
    elif isinstance(group, Group):
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
    made = Group(
        default.store.prefixed(f"group {name}"),
        name,
        members,
        members.index(default.rank()),
        (backend or default.backend).lower(),
        default.timeout_s if timeout is None else timeout.total_seconds(),
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
    return resolve(group).member(global_rank)


def _get_default_group() -> Group:
    """Raises ValueError if there is none."""
    return resolve(None)


def _get_default_store() -> stores.Store:
    """The store of the default group. Raises ValueError if there is none."""
    return stores.Store(resolve(None).store.prefixed("user"), name="default")


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
