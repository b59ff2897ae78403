"""Algorithms of collectives: that they bring everything where it has to be, and take what is published of them."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from squall.sim.scripts.collective_steps import Played
from squall.sim.world.algorithms import (
    ALGORITHMS,
    Asked,
    Choice,
    Steps,
    parse_algorithms,
)
from squall.sim.world.links import Cost, LinkCosts, Ports

SIZES = (2, 3, 4, 5, 7, 8, 13, 16)
EVERY = [(kind, name) for kind, algorithms in ALGORITHMS.items() for name in algorithms]
#: what a member has of a block: whose contributions
Has = dict[tuple[int, int], frozenset[int]]

A, B = 5e-6, 25e9


def moved(steps: Steps, has: Has) -> Has:
    """What members have after all steps. A member that gets a part of a sum twice would count it twice."""
    for src, dst, blocks in steps.steps:
        for block in blocks:
            brought, own = has.get((src, block), frozenset()), has.get((dst, block), frozenset())
            assert brought, f"{src} sends {dst} block {block}, of which it has nothing"
            assert not (brought & own) or own <= brought, f"{dst} would add {brought & own} twice"
            has[dst, block] = brought | own
    return has


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_everything_comes_to_where_it_has_to_be(kind: str, name: str, size: int) -> None:
    root = size - 1
    steps = ALGORITHMS[kind][name](Asked(size, root, 1 << 22))
    members, blocks = range(size), range(steps.blocks)
    everybody = frozenset(members)
    if kind in ("all_reduce", "reduce", "reduce_scatter"):
        got = moved(steps, {(m, b): frozenset([m]) for m in members for b in blocks})
        for m in members:
            is_own = kind == "all_reduce" or (kind == "reduce" and m == root)
            wanted = blocks if is_own else [m] if kind == "reduce_scatter" else []
            assert all(got[m, b] == everybody for b in wanted)
    elif kind in ("all_gather", "barrier"):
        got = moved(steps, {(m, m): frozenset([m]) for m in members})
        assert all(got[m, b] == {b} for m in members for b in members)
    elif kind == "all_to_all":
        got = moved(steps, {(m, m * size + d): frozenset([m]) for m in members for d in members})
        assert all(got[d, m * size + d] == {m} for m in members for d in members)
    elif kind == "gather":
        got = moved(steps, {(m, m): frozenset([m]) for m in members})
        assert all((root, m) in got for m in members)
    else:
        got = moved(steps, {(root, b): frozenset([root]) for b in blocks})
        assert all(
            (m, b % steps.blocks if kind == "scatter" else 0) in got for m in members for b in [m]
        )


def time_of(steps: Steps, bytes_of: Callable[[tuple[int, ...]], float], **more: Any) -> float:
    """When the last step arrives, if all members call at 0; ``more``: costs of links."""
    ports = Ports(more.get("costs", LinkCosts(Cost(A, B))))
    queue: list[tuple[float, int]] = []
    now_s = 0.0

    over: list[int] = []
    played = Played(steps, lambda: None, over.append)
    members = {end for step in steps.steps for end in step[:2]}
    for member in sorted(members):
        played.called(member)
    while True:
        for number in played.take():
            src, dst, blocks = steps.steps[number]
            message: Any = SimpleNamespace(src=src, dst=dst, size_bytes=bytes_of(blocks))
            heapq.heappush(queue, (now_s + ports.delay_s(message, now_s), number))
        if not queue:
            break
        now_s = queue[0][0]
        while queue and queue[0][0] == now_s:
            played.arrived(heapq.heappop(queue)[1])
    assert sorted(over) == sorted(members)
    return now_s


def whole(steps: Steps, size_bytes: float) -> float:
    return time_of(steps, partial(_equal_parts, steps, size_bytes))


@pytest.mark.parametrize("size_bytes", [8, 1 << 16, 1 << 20, 1 << 26])
@pytest.mark.parametrize("p", [2, 4, 8, 16])
def test_algorithms_take_what_is_published(p: int, size_bytes: int) -> None:
    n, log = size_bytes / B, int(math.log2(p))
    part = (p - 1) / p * n
    expected = {
        ("all_reduce", "ring"): 2 * (p - 1) * A + 2 * part,
        ("all_reduce", "halving-doubling"): 2 * log * A + 2 * part,
        ("reduce_scatter", "ring"): (p - 1) * A + part,
        ("broadcast", "tree"): log * (A + n),
        ("broadcast", "direct"): A + (p - 1) * n,
        ("reduce", "tree"): log * (A + n),
    }
    for (kind, name), expected_s in expected.items():
        steps = ALGORITHMS[kind][name](Asked(p, 0, size_bytes))
        assert whole(steps, size_bytes) == pytest.approx(expected_s, rel=0.01), (kind, name)
    each = {
        ("all_gather", "ring"): (p - 1) * (A + n),
        ("all_to_all", "pairwise"): A + (p - 1) * n,
        ("gather", "direct"): A + (p - 1) * n,
        ("scatter", "direct"): A + (p - 1) * n,
        ("barrier", "dissemination"): log * A,
    }
    for (kind, name), expected_s in each.items():
        steps = ALGORITHMS[kind][name](Asked(p, 0, size_bytes))
        own = 0 if kind == "barrier" else size_bytes
        found_s = time_of(steps, lambda blocks, own=own: own * len(blocks))  # type: ignore[misc]
        assert found_s == pytest.approx(expected_s, rel=0.01), (kind, name)


@pytest.mark.parametrize("p", [4, 6, 8, 16])
def test_two_trees_take_two_times_the_depth_and_twice_the_data(p: int) -> None:
    log = (p - 1).bit_length()
    for size_bytes, within in ((8, 0.01), (1 << 24, 0.07), (1 << 28, 0.07)):
        steps = ALGORITHMS["all_reduce"]["tree"](Asked(p, 0, size_bytes))
        expected_s = 2 * log * A + 2 * size_bytes / B
        assert whole(steps, size_bytes) == pytest.approx(expected_s, rel=within)


def test_a_slow_link_delays_a_ring_at_each_step_and_a_tree_only_below_it() -> None:
    p, size_bytes, slow_s = 8, 1 << 20, 1e-3
    costs = LinkCosts(Cost(A, B), {(2, 3): Cost(slow_s, B)})

    def later(kind: str, name: str) -> float:
        steps = ALGORITHMS[kind][name](Asked(p, 0, size_bytes))
        bytes_of = partial(_equal_parts, steps, size_bytes)
        return time_of(steps, bytes_of, costs=costs) - time_of(steps, bytes_of)

    # In a ring each of 2 (p - 1) rounds crosses it, of halving and doubling one on the way there and one on the way back.
    assert later("all_reduce", "ring") == pytest.approx(2 * (p - 1) * slow_s, rel=0.05)
    assert later("broadcast", "tree") == 0.0  # 2 and 3 have it from others
    assert later("all_reduce", "halving-doubling") == pytest.approx(2 * slow_s, rel=0.05)


def _equal_parts(steps: Steps, size_bytes: float, blocks: tuple[int, ...]) -> float:
    return size_bytes * len(blocks) / steps.blocks


def test_backends_take_their_algorithms_and_a_choice_takes_its_own() -> None:
    small, large = Asked(16, 0, 8), Asked(16, 0, 1 << 28)
    gloo, nccl = Choice("gloo", {}, A, B), Choice("nccl", {}, A, B)
    assert [gloo.name("all_reduce", each) for each in (small, large)] == ["ring", "ring"]
    assert [nccl.name("all_reduce", each) for each in (small, large)] == ["tree", "ring"]
    # ProcessGroupGloo reduces all of it everywhere.
    assert (gloo.name("reduce_scatter", large), nccl.name("reduce_scatter", large)) == (
        "all_reduce",
        "ring",
    )
    chosen = Choice("gloo", parse_algorithms("all_reduce=tree, broadcast = direct"), A, B)
    assert chosen.name("all_reduce", large) == "tree"
    assert chosen.steps("broadcast", large) == ALGORITHMS["broadcast"]["direct"](large)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "all_reduce",
            "'all_reduce' should be COLLECTIVE=ALGORITHM, a collective one of all_reduce, reduce",
        ),
        ("sum=ring", "'sum=ring' should be COLLECTIVE=ALGORITHM"),
        ("barrier=ring", "'ring' is no algorithm of barrier, expected one of dissemination"),
        ("reduce=ring,reduce=tree", "reduce has two algorithms, expected one"),
    ],
)
def test_what_is_no_choice_of_algorithms_is_told(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        parse_algorithms(text)
