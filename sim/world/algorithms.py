"""How collectives move their data: the steps on links of each algorithm, and which one a backend takes.

What is moved is cut into blocks, and a step takes some of them from one member to another. It begins when its
sender has got what it is to pass on of these blocks: every earlier step that brings one of them to it; and when
few enough steps between these two are on the way. So the order of the steps in the list is all there is to say. In a
reduction a member adds what it gets to what it has of a block. Imports no torch.

Sources: gloo/allreduce.cc, broadcast.cc, reduce.cc, allgather.cc, alltoall.cc, gather.cc, scatter.cc and barrier.cc of
pytorch/gloo; ProcessGroupGloo.cpp, whose reduce_scatter is an all_reduce; src/graph/tuning.cc of NVIDIA/nccl, which
takes ring or tree by their times. Costs: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
Operations in MPICH" (2005); the two trees: Sanders, Speck and Träff (2009), as NCCL has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

#: of a tree in two halves, bytes that go through it at once (NCCL: some 256 kB), and the most chunks of a half
_CHUNK_BYTES, _CHUNKS = 1 << 18, 64
#: how many of them may be on the way between two members (NCCL has room for 8, which are smaller)
_CHUNKS_ON_THE_WAY = 4


class Transfer(NamedTuple):
    """``src`` sends ``dst`` these blocks."""

    src: int
    dst: int
    blocks: tuple[int, ...]


class Steps(NamedTuple):
    """Of a collective; ``blocks``: how many there are in all; ``on_the_way``: how many steps from one member to another
    may be at the same time."""

    steps: Sequence[Transfer]
    blocks: int
    on_the_way: int = 1

    def needs(self) -> list[list[int]]:
        """By step: the numbers of the earlier ones that have to have arrived before it begins."""
        brought: dict[tuple[int, int], list[int]] = {}
        before: dict[tuple[int, int], list[int]] = {}
        found = []
        for number, (src, dst, blocks) in enumerate(self.steps):
            same = before.setdefault((src, dst), [])
            needed = {n for each in blocks for n in brought.get((src, each), ())}
            if len(same) >= self.on_the_way:
                needed.add(same[-self.on_the_way])
            found.append(sorted(needed))
            same.append(number)
            for each in blocks:
                brought.setdefault((dst, each), []).append(number)
        return found


class Asked(NamedTuple):
    """Of which collective the steps are asked for: among how many members, from or to which one if that matters, and
    of how many bytes."""

    size: int
    root: int = 0
    size_bytes: float = 0.0


def _ring(asked: Asked, first: int, rounds: int) -> list[Transfer]:
    """Blocks go round; in the first round member m sends block m + ``first`` to the next one."""
    p = asked.size
    return [
        Transfer(m, (m + 1) % p, ((m + first - turn) % p,))
        for turn in range(rounds)
        for m in range(p)
    ]


def ring_all_reduce(asked: Asked) -> Steps:
    """2 (p - 1) a + 2 (p - 1)/p n/b: each block is added up on its way round, and goes round once more."""
    return Steps(_ring(asked, 0, 2 * (asked.size - 1)), asked.size)


def ring_reduce_scatter(asked: Asked) -> Steps:
    """(p - 1) a + (p - 1)/p n/b: block m ends at member m."""
    return Steps(_ring(asked, -1, asked.size - 1), asked.size)


def ring_all_gather(asked: Asked) -> Steps:
    """(p - 1) a + (p - 1) n/b, of n bytes of each member: block m is that of member m."""
    return Steps(_ring(asked, 0, asked.size - 1), asked.size)


def ring_reduce(asked: Asked) -> Steps:
    """As reduce_scatter, then each member sends its block to the root."""
    scattered, p = ring_reduce_scatter(asked), asked.size
    return Steps(
        [*scattered.steps, *(Transfer(m, asked.root, (m,)) for m in range(p) if m != asked.root)], p
    )


def tree_broadcast(asked: Asked) -> Steps:
    """ceil(log2 p) (a + n/b): a binomial tree; who has it sends it to one who has not."""
    p, root, steps, distance = asked.size, asked.root, [], 1
    while distance < p:
        for m in range(min(distance, p - distance)):
            steps.append(Transfer((m + root) % p, (m + distance + root) % p, (0,)))
        distance *= 2
    return Steps(steps, 1)


def tree_reduce(asked: Asked) -> Steps:
    """ceil(log2 p) (a + n/b): the tree of a broadcast the other way."""
    back = [
        Transfer(dst, src, blocks) for src, dst, blocks in reversed(tree_broadcast(asked).steps)
    ]
    return Steps(back, 1)


def _parent(m: int, size: int) -> int:
    """In a binary tree in which members with odd numbers are leaves; 0 is its root (NCCL: ncclGetBtree)."""
    bit = m & -m
    up = (m ^ bit) | (bit << 1)
    return up if up < size else m ^ bit


def tree_all_reduce(asked: Asked) -> Steps:
    """About 2 log2 p a + 2 n/b: up and down two binary trees, a half of the data each, in chunks; who is a leaf in one
    is none in the other. What the formula leaves out, as NCCL corrects it too: the way of the first chunk down the tree,
    which takes the more of the time the fewer chunks there are."""
    p = asked.size
    half_bytes = asked.size_bytes / 2
    chunks = min(_CHUNKS, max(1, round(half_bytes / _CHUNK_BYTES)))

    def member(tree: int, m: int) -> int:
        if not tree:
            return m
        return p - 1 - m if p % 2 == 0 else (m + 1) % p

    below: dict[int, list[int]] = {}
    for m in range(1, p):
        below.setdefault(_parent(m, p), []).append(m)
    levels, level = list[list[int]](), [0]
    while level:
        levels.append(level)
        level = [child for m in level for child in below.get(m, ())]
    down = [(_parent(m, p), m) for each in levels[1:] for m in each]
    up = [(m, parent) for parent, m in reversed(down)]
    steps = [
        Transfer(member(tree, src), member(tree, dst), (chunk * 2 + tree,))
        for edges in (up, down)
        for chunk in range(chunks)
        for src, dst in edges
        for tree in (0, 1)
    ]
    return Steps(steps, 2 * chunks, _CHUNKS_ON_THE_WAY)


def halving_doubling_all_reduce(asked: Asked) -> Steps:
    """2 log2 p a + 2 (p - 1)/p n/b among a power of two: halves are exchanged over shrinking distances, then what is
    complete over growing ones. Of others those beyond that power first give all they have to one within, and get it
    back last: 2 (a + n/b) more."""
    p, within = asked.size, 1
    while within * 2 <= p:
        within *= 2
    whole = tuple(range(within))
    more = [Transfer(m, m - within, whole) for m in range(within, p)]
    halving, distance = list[Transfer](), within // 2
    while distance:
        for m in range(within):
            # What the other one goes on with: blocks that have its bits above, and at, this distance.
            other, mask = m ^ distance, ~(distance - 1)
            kept = tuple(block for block in whole if block & mask == other & mask)
            halving.append(Transfer(m, other, kept))
        distance //= 2
    doubling = []
    for src, dst, blocks in reversed(halving):
        doubling.append(Transfer(dst, src, blocks))
    back = [Transfer(dst, src, blocks) for src, dst, blocks in more]
    return Steps([*more, *halving, *doubling, *back], within)


def dissemination_barrier(asked: Asked) -> Steps:
    """ceil(log2 p) a: in each round everybody tells the member at a distance that doubles."""
    # Blocks are members of whom is heard, each once: a step waits for what its sender has to have heard.
    p, steps, distance = asked.size, list[Transfer](), 1
    while distance < p:
        heard = range(min(distance, p - distance))
        steps += [
            Transfer(m, (m + distance) % p, tuple((m - back) % p for back in heard))
            for m in range(p)
        ]
        distance *= 2
    return Steps(steps, p)


def pairwise_all_to_all(asked: Asked) -> Steps:
    """a + (p - 1) n/b, of n bytes for each member: in round i everybody sends to the member i further on."""
    p = asked.size
    steps = [
        Transfer(m, (m + i) % p, (m * p + (m + i) % p,)) for i in range(1, p) for m in range(p)
    ]
    return Steps(steps, p * p)


def direct_gather(asked: Asked) -> Steps:
    """a + (p - 1) n/b: everybody sends to the root at once, which takes one after the other."""
    others = [m for m in range(asked.size) if m != asked.root]
    return Steps([Transfer(m, asked.root, (m,)) for m in others], asked.size)


def direct_scatter(asked: Asked) -> Steps:
    """a + (p - 1) n/b: the root sends to one after the other."""
    back = [Transfer(dst, src, blocks) for src, dst, blocks in direct_gather(asked).steps]
    return Steps(back, asked.size)


def direct_broadcast(asked: Asked) -> Steps:
    """a + (p - 1) n/b: the root sends to one after the other."""
    return Steps([step._replace(blocks=(0,)) for step in direct_scatter(asked).steps], 1)


Algorithm = Callable[[Asked], Steps]
#: by collective and name
ALGORITHMS: Mapping[str, Mapping[str, Algorithm]] = {
    "all_reduce": {
        "ring": ring_all_reduce,
        "tree": tree_all_reduce,
        "halving-doubling": halving_doubling_all_reduce,
    },
    "reduce": {"ring": ring_reduce, "tree": tree_reduce},
    "broadcast": {"tree": tree_broadcast, "direct": direct_broadcast},
    "reduce_scatter": {"ring": ring_reduce_scatter, "all_reduce": ring_all_reduce},
    "all_gather": {"ring": ring_all_gather},
    "all_to_all": {"pairwise": pairwise_all_to_all},
    "gather": {"direct": direct_gather},
    "scatter": {"direct": direct_scatter},
    "barrier": {"dissemination": dissemination_barrier},
}
#: what is not the first algorithm of a collective, by backend
_OF_BACKENDS: Mapping[str, Mapping[str, str]] = {
    "gloo": {"reduce_scatter": "all_reduce"},
    "nccl": {},
    # Open MPI and MPICH take it for long messages too; see Thakur et al.
    "mpi": {"all_reduce": "halving-doubling", "reduce": "tree"},
}


class Choice:
    """Which algorithm is taken for a collective, as on ``backend`` (gloo, nccl or mpi). ``chosen``: by collective, whatever the backend would take.

    ``latency_s``, ``bandwidth_bytes_per_s``: of links in general, by which NCCL weighs ring against tree.
    """

    def __init__(
        self,
        backend: str,
        chosen: Mapping[str, str],
        latency_s: float,
        bandwidth_bytes_per_s: float,
    ) -> None:
        self._backend, self._chosen = backend, chosen
        self._latency_s, self._bytes_per_s = latency_s, bandwidth_bytes_per_s

    def name(self, collective: str, asked: Asked) -> str:
        """That of the algorithm."""
        if collective in self._chosen:
            return self._chosen[collective]
        if self._backend == "nccl" and collective == "all_reduce":
            p, a, s = asked.size, self._latency_s, asked.size_bytes / self._bytes_per_s
            ring_s = 2 * (p - 1) * a + 2 * (p - 1) / p * s
            tree_s = 2 * (p - 1).bit_length() * a + 2 * s
            return "tree" if tree_s < ring_s else "ring"
        return _OF_BACKENDS[self._backend].get(collective) or next(iter(ALGORITHMS[collective]))

    def steps(self, collective: str, asked: Asked) -> Steps:
        """Those of the algorithm."""
        return ALGORITHMS[collective][self.name(collective, asked)](asked)


def parse_algorithms(text: str) -> dict[str, str]:
    """By collective, of ``all_reduce=tree,broadcast=direct``. Raises ValueError with a message of one line."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        collective, equals, name = (word.strip() for word in part.partition("="))
        if not equals or collective not in ALGORITHMS:
            known = ", ".join(ALGORITHMS)
            raise ValueError(
                f"{part!r} should be COLLECTIVE=ALGORITHM, a collective one of {known}"
            )
        if name not in ALGORITHMS[collective]:
            known = ", ".join(ALGORITHMS[collective])
            raise ValueError(f"{name!r} is no algorithm of {collective}, expected one of {known}")
        if collective in found:
            raise ValueError(f"{collective} has two algorithms, expected one")
        found[collective] = name
    return found
