"""All orders of what ranks do in process groups: do they end, whatever comes first?

Nearly everything commutes: a message of one sender, receiver and tag goes with the receive of the same number, and a
collective with those of its number. So all of that is done at once, and orders branch in two places: which of the
messages that are there a receive from any rank takes, and which of several threads of a rank begins first where they
begin operations that are told apart by their order. Tested against all interleavings, one by one
(``every_step``), and against the simulator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from squall.sim.explore.group_program import ANY, Begin, Group, GroupProgram, Name, Thread, Wait

#: whether a send is over at once, or when its receiver is there; with "streams" it also keeps back what its rank
#: begins after it, as on NCCL: on one stream of the group there are its collectives and its batches of messages, one
#: after the other, and on one for each pair of ranks the messages that are in no batch, whatever their tags
Sends = Literal["buffered", "rendezvous", "streams"]
#: "left": a rank waits for one that has ended; "error": a rank has failed by itself, which its script knows alone
Outcome = Literal["ok", "deadlock", "mismatch", "left", "error"]

#: which sender a receive from any rank took, or which thread began first
Choice = tuple[Name, int]
#: group, sender, receiver, and the tag or the kind and number of a collective
Way = tuple[Group, int, int, object]


class End(NamedTuple):
    """``lines``: who waits for whom, or what does not go together. ``choices``: those that led to it."""

    outcome: Outcome
    lines: tuple[str, ...]
    choices: tuple[Choice, ...]


@dataclass
class Orders:
    """``states``: how many differ in what was chosen; ``all_ends``: one of each outcome and choices. ``whole``: no limit
    ended the search."""

    states: int = 0
    all_ends: dict[tuple[Outcome, frozenset[Choice]], End] = field(default_factory=dict)
    whole: bool = True

    @property
    def ends(self) -> dict[Outcome, End]:
        """The first that was met of each outcome."""
        found: dict[Outcome, End] = {}
        for end in self.all_ends.values():
            found.setdefault(end.outcome, end)
        return found


def orders_of(
    program: GroupProgram, sends: Sends, *, most: int = 1_000_000, every_step: bool = False
) -> Orders:
    """``most``: states. ``every_step``: what commutes is tried in each order, too."""
    found, seen = Orders(), set()
    stack = [_State(program, sends)]
    while stack:
        state = stack.pop()
        if not every_step:
            state.go_on()
        key = state.key()
        if key in seen:
            continue
        seen.add(key)
        found.states += 1
        if found.states > most:
            found.whole = False
            return found
        following = [] if state.mismatch else [*state.following(every_step)]
        stack.extend(reversed(following))
        if not following:
            end = state.end()
            found.all_ends.setdefault((end.outcome, frozenset(end.choices)), end)
    return found


@dataclass
class _Open:
    """An operation that is not over. ``is_held``: others of its stream go before."""

    begin: Begin
    channel: object
    wants: list[int]
    readers: list[int]
    is_held: bool = False


class _State:
    """What has been done so far, and what may be done next."""

    def __init__(self, program: GroupProgram, sends: Sends) -> None:
        self._program = program
        self._sends = sends
        self._at = [[0] * len(threads) for threads in program.ranks]
        self._begun = [[0] * len(threads) for threads in program.ranks]
        self._open: dict[Name, _Open] = {}
        #: how much is there that nobody has taken
        self._pieces: Counter[Way] = Counter()
        self._notices: Counter[Way] = Counter()
        #: how many collectives each rank has called in each group
        self._called: Counter[tuple[int, Group]] = Counter()
        #: of each collective the first call
        self._first: dict[tuple[Group, int], tuple[int, Begin]] = {}
        #: by stream: what is on it, batch by batch, with the number of the batch
        self._streams: dict[tuple[Any, ...], list[tuple[int, list[Name]]]] = {}
        self._choices: tuple[Choice, ...] = ()
        self.mismatch = ""

    def copy(self) -> _State:
        copy = object.__new__(_State)
        copy.__dict__.update(self.__dict__)
        copy._at = [[*each] for each in self._at]
        copy._begun = [[*each] for each in self._begun]
        copy._open = {
            name: _Open(each.begin, each.channel, [*each.wants], [*each.readers], each.is_held)
            for name, each in self._open.items()
        }
        copy._streams = {
            stream: [(batch, [*names]) for batch, names in entries]
            for stream, entries in self._streams.items()
        }
        copy._pieces, copy._notices = self._pieces.copy(), self._notices.copy()
        copy._called, copy._first = self._called.copy(), self._first.copy()
        return copy

    def key(self) -> object:
        open_ = tuple(
            (name, each.channel, each.is_held, *each.wants, None, *each.readers)
            for name, each in sorted(self._open.items())
        )
        kept = (frozenset(each.items()) for each in (self._pieces, self._notices))
        return tuple(map(tuple, self._at)), open_, *kept, frozenset(self._choices), self.mismatch

    # -- steps ----------------------------------------------------------------------------

    def go_on(self) -> None:
        """Do all that commutes with everything else."""
        is_done = False
        while not is_done and not self.mismatch:
            is_done = True
            for rank, thread in self._threads():
                while not self.mismatch and self._can(rank, thread, alone=True):
                    self._do(rank, thread)
                    is_done = False
            for name in [*self._open]:
                if name in self._open:
                    is_done = not self._take(name) and is_done

    def following(self, every_step: bool) -> Iterator[_State]:
        """The states that may be next."""
        for rank, thread in self._threads():
            if self._can(rank, thread, alone=False):
                state = self.copy()
                if not self._can(rank, thread, alone=True):
                    name = rank, thread, self._begun[rank][thread]
                    state._choices = (*self._choices, (name, thread))
                state._do(rank, thread)
                yield state
        for name, each in self._open.items():
            for source in self._sources(name) if each.wants[:1] == [ANY] else ():
                state = self.copy()
                state._choices = (*self._choices, (name, source))
                state._open[name].wants, state._open[name].begin = [source], each.begin
                state._notices[each.begin.group, name[0], source, each.channel] += 1
                state._take(name)
                yield state
        if every_step:
            for name in self._open:
                state = self.copy()
                if state._take(name):
                    yield state

    def _threads(self) -> Iterator[tuple[int, int]]:
        for rank, threads in enumerate(self._program.ranks):
            for thread in range(len(threads)):
                yield rank, thread

    def _can(self, rank: int, thread: int, *, alone: bool) -> bool:
        """Whether a thread can do what is next; ``alone``: and nothing that another thread of its rank may still do
        could come before it and change it."""
        actions, at = self._program.ranks[rank][thread], self._at[rank][thread]
        if at == len(actions):
            return False
        action = actions[at]
        if isinstance(action, Wait):
            begun = self._begun[rank][action.thread] > action.number
            return begun and (rank, action.thread, action.number) not in self._open
        return not alone or not any(
            self._are_told_apart_by_order(rank, action, other)
            for number, others in enumerate(self._program.ranks[rank])
            if number != thread
            for other in others[self._at[rank][number] :]
        )

    def _are_told_apart_by_order(self, rank: int, one: Begin, other: Begin | Wait) -> bool:
        """Of two operations of one rank, which two threads begin."""
        if isinstance(other, Wait) or one.group != other.group:
            return False
        if self._sends == "streams" and _stream(rank, one) == _stream(rank, other):
            return True
        if one.channel != other.channel:
            return False
        if one.channel is None:
            return True
        if one.gives or other.gives:
            return one.gives == other.gives
        return one.wants == other.wants or ANY in (*one.wants, *other.wants)

    def _do(self, rank: int, thread: int) -> None:
        action = self._program.ranks[rank][thread][self._at[rank][thread]]
        self._at[rank][thread] += 1
        if isinstance(action, Wait):
            return
        name = rank, thread, self._begun[rank][thread]
        self._begun[rank][thread] += 1
        channel: object = action.channel if self._sends != "streams" else 0
        if action.channel is None:
            channel = self._call(rank, action)
        is_buffered = action.channel is not None and self._sends == "buffered"
        readers = [] if is_buffered else [*action.readers]
        self._open[name] = each = _Open(action, channel, [*action.wants], readers)
        if self._sends == "streams":
            entries = self._streams.setdefault(_stream(rank, action), [])
            if entries and action.batch and entries[-1][0] == action.batch:
                entries[-1][1].append(name)
            else:
                entries.append((action.batch, [name]))
            each.is_held = len(entries) > 1
        self._start(name)

    def _start(self, name: Name) -> None:
        """Send what an operation gives, unless it is held."""
        each, rank = self._open[name], name[0]
        if each.is_held:
            return
        for to in each.begin.gives:
            self._pieces[each.begin.group, rank, to, each.channel] += 1
        for to in each.begin.tells:
            self._notices[each.begin.group, rank, to, each.channel] += 1
        self._take(name)

    def _over(self, name: Name) -> None:
        begin = self._open.pop(name).begin
        if self._sends != "streams":
            return
        entries = self._streams[_stream(name[0], begin)]
        entries[0][1].remove(name)
        if entries[0][1]:
            return
        del entries[0]
        for other in [*entries[0][1]] if entries else ():
            self._open[other].is_held = False
            self._start(other)

    def _call(self, rank: int, begin: Begin) -> object:
        """The number of a collective, which is compared with the first call of the same one."""
        number = self._called[rank, begin.group]
        self._called[rank, begin.group] += 1
        other, first = self._first.setdefault((begin.group, number), (rank, begin))
        if (first.kind, first.agreed) != (begin.kind, begin.agreed) and not self.mismatch:
            self.mismatch = f"rank {other} calls {first}; rank {rank} calls {begin}"
        return begin.kind, number

    def _take(self, name: Name) -> bool:
        """Let an operation have what is there for it: whether anything is."""
        each, rank = self._open[name], name[0]
        group, channel = each.begin.group, each.channel
        took = False
        if each.is_held:
            return took
        for source in [*each.wants]:
            way = group, source, rank, channel
            if source != ANY and self._pieces[way] and self._is_first(name, source):
                self._pieces[way] -= 1
                each.wants.remove(source)
                took = True
        for reader in [*each.readers]:
            way = group, reader, rank, channel
            if self._notices[way] and self._is_first(name, reader):
                self._notices[way] -= 1
                each.readers.remove(reader)
                took = True
        if not each.wants and not each.readers:
            self._over(name)
            took = True
        return took

    def _is_first(self, name: Name, peer: int) -> bool:
        """Whether no operation that has begun before waits for the same of that peer."""
        each = self._open[name]
        for other, before in self._open.items():
            if other == name:
                return True
            is_same = (other[0], before.begin.group, before.channel) == (
                name[0],
                each.begin.group,
                each.channel,
            )
            if not is_same or bool(before.begin.gives) != bool(each.begin.gives):
                continue
            if peer in before.readers or peer in before.wants or ANY in before.wants:
                return False
        return True

    def _sources(self, name: Name) -> list[int]:
        """From whom a receive from any rank may have its message."""
        each = self._open[name]
        members = self._program.members[each.begin.group]
        return [
            source
            for source in members
            if self._pieces[each.begin.group, source, name[0], each.channel]
            and self._is_first(name, source)
        ]

    # -- ends -----------------------------------------------------------------------------

    def end(self) -> End:
        """Nothing can go on."""
        if self.mismatch:
            return End("mismatch", (self.mismatch,), self._choices)
        lines: list[str] = []
        outcomes: set[Outcome] = set()
        for rank, thread in self._threads():
            at = self._at[rank][thread]
            if at == len(self._program.ranks[rank][thread]):
                continue
            action = self._program.ranks[rank][thread][at]
            assert isinstance(action, Wait), "nothing else keeps a thread back"
            each = self._open[rank, action.thread, action.number]
            wanted = [*each.wants, *each.readers]
            if ANY in wanted:
                wanted = [
                    other for other in self._program.members[each.begin.group] if other != rank
                ]
                gone = all(map(self._has_ended, wanted))
            else:
                gone = any(map(self._has_ended, wanted))
            outcomes.add(
                "deadlock" if not gone else "mismatch" if each.begin.channel is None else "left"
            )
            whom = " and ".join(f"rank {other}" for other in wanted)
            lines.append(f"rank {rank} waits for {whom}: {each.begin}")
        for outcome in ("mismatch", "left", "deadlock"):
            if outcome in outcomes:
                return End(outcome, tuple(lines), self._choices)
        return End("ok", (), self._choices)

    def _has_ended(self, rank: int) -> bool:
        threads: tuple[Thread, ...] = self._program.ranks[rank]
        return all(at == len(each) for at, each in zip(self._at[rank], threads, strict=True))


def _stream(rank: int, begin: Begin) -> tuple[Any, ...]:
    if begin.channel is None or begin.batch:
        return rank, begin.group
    return rank, begin.group, *begin.gives, *begin.wants
