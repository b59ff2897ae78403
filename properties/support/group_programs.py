"""Random programs of process groups, drawn as data, and what plays them as a script."""

from __future__ import annotations

import json
from itertools import combinations
from random import Random
from typing import Any

from squall.sim.explore.group_program import (
    ANY,
    Begin,
    Group,
    GroupProgram,
    Thread,
    Wait,
    receive,
    send,
)

#: plays a program that is given as JSON: actions by rank and thread, and the ranks of each group
PLAYER = """
import json
import sys
import threading

import torch
import torch.distributed as dist

actions, members = json.loads(sys.argv[1])
dist.init_process_group("gloo")
rank = dist.get_rank()
groups = [dist.new_group(ranks) for ranks in members]
works = [{} for _ in actions[rank]]


def begin(kind, group, peer, tag):
    value, group = torch.ones(2), groups[group]
    if kind == "isend":
        return dist.isend(value, peer, group=group, tag=tag)
    if kind == "irecv":
        return dist.irecv(value, None if peer < 0 else peer, group=group, tag=tag)
    if kind == "broadcast":
        return dist.broadcast(value, peer, group=group, async_op=True)
    if kind == "barrier":
        return dist.barrier(group=group, async_op=True)
    return dist.all_reduce(value, group=group, async_op=True)


def play(thread):
    for number, (kind, *rest) in enumerate(actions[rank][thread]):
        if kind == "wait":
            works[thread][rest[0]].wait()
        else:
            works[thread][len(works[thread])] = begin(kind, *rest)


threads = [threading.Thread(target=play, args=(n,)) for n in range(1, len(actions[rank]))]
for each in threads:
    each.start()
play(0)
for each in threads:
    each.join()
"""


def collective(
    kind: str, members: tuple[int, ...], rank: int, group: Group, root: int | None = None
) -> Begin:
    """One member's part, as sim/scripts/collectives.py has it."""
    others = tuple(each for each in members if each != rank)
    if root is None:
        return Begin(group, kind, gives=others, wants=others)
    if rank == root:
        return Begin(group, kind, gives=others, readers=others, agreed=f"root {root}")
    return Begin(group, kind, wants=(root,), tells=(root,), agreed=f"root {root}")


def draw(
    seed: int, *, size: int = 3, operations: int = 6, two_threads: bool = False
) -> GroupProgram:
    """Half of them have two operations of a rank exchanged."""
    random = Random(seed)
    members: dict[Group, tuple[int, ...]] = dict(
        enumerate([tuple(range(size)), *combinations(range(size), 2)])
    )
    begun: list[list[list[Begin]]] = [[[], []] for _ in range(size)]

    def put(rank: int, begin: Begin) -> None:
        begun[rank][two_threads and random.random() < 0.3].append(begin)

    for _ in range(operations):
        if random.random() < 0.4:
            group = 0 if random.random() < 0.6 else random.randrange(1, len(members))
            kind = random.choice(["all_reduce", "broadcast", "barrier"])
            root = random.choice(members[group]) if kind == "broadcast" else None
            for rank in members[group]:
                put(rank, collective(kind, members[group], rank, group, root))
        else:
            one, other = random.sample(range(size), 2)
            tag = random.randrange(2)
            put(one, send(other, tag))
            put(other, receive(ANY if random.random() < 0.2 else one, tag))
    if random.random() < 0.5:
        first = begun[random.randrange(size)][0]
        if len(first) > 1:
            at = random.randrange(len(first) - 1)
            first[at], first[at + 1] = first[at + 1], first[at]
    ranks = tuple(
        tuple(_with_waits(random, begins, thread) for thread, begins in enumerate(threads))
        for threads in begun
    )
    return GroupProgram(ranks, members)


def _with_waits(random: Random, begins: list[Begin], thread: int) -> Thread:
    """Each operation is waited for at once, or later."""
    actions: list[Begin | Wait] = []
    late: list[int] = []
    for number, begin in enumerate(begins):
        actions.append(begin)
        if random.random() < 0.3:
            late.append(number)
        else:
            actions.append(Wait(number, thread))
        if late and random.random() < 0.5:
            actions.append(Wait(late.pop(), thread))
    return (*actions, *(Wait(number, thread) for number in late))


def argument(program: GroupProgram) -> str:
    """What :data:`PLAYER` is given to play it."""
    actions = [
        [[_in_json(action) for action in thread] for thread in threads] for threads in program.ranks
    ]
    return json.dumps([actions, [*program.members.values()]])


def _in_json(action: Begin | Wait) -> list[Any]:
    if isinstance(action, Wait):
        return ["wait", action.number]
    if action.channel is not None:
        peers = action.gives or action.wants
        return ["isend" if action.gives else "irecv", action.group, peers[0], action.channel]
    root = int(action.agreed.split()[-1]) if action.agreed else 0
    return [action.kind, action.group, root, 0]
