"""The lines of a script in which ranks tell each other something, and look at what came of it.

Each is a generator: what is begun before it yields is under way until it goes on.
"""

from __future__ import annotations

from squall.sim.trainings.training import Call, Talk

#: by call: what is begun, and what is done and looked at after it. ``mine`` is the value of this rank, ``values``
#: those of all, ``place`` its index among them
_LINES: dict[Call, tuple[str, str]] = {
    "all_reduce": (
        "work = dist.all_reduce(mine, op={op}, group=group, async_op=True)",
        "work.wait()\nexpect(mine, reduced(values))",
    ),
    "reduce": (
        "work = dist.reduce(mine, dst={root}, op={op}, group=group, async_op=True)",
        "work.wait()\nif rank == {root}:\n    expect(mine, reduced(values))",
    ),
    "broadcast": (
        "work = dist.broadcast(mine, src={root}, group=group, async_op=True)",
        "work.wait()\nexpect(mine, values[{place}])",
    ),
    "all_gather": (
        "found = [torch.empty_like(mine) for _ in AMONG]\n"
        "work = dist.all_gather(found, mine, group=group, async_op=True)",
        "work.wait()\nexpect(torch.stack(found), torch.stack(values))",
    ),
    "gather": (
        "found = [torch.empty_like(mine) for _ in AMONG] if rank == {root} else None\n"
        "work = dist.gather(mine, found, dst={root}, group=group, async_op=True)",
        "work.wait()\nif rank == {root}:\n    expect(torch.stack(found), torch.stack(values))",
    ),
    "scatter": (
        "given = values if rank == {root} else None\n"
        "work = dist.scatter(mine, given, src={root}, group=group, async_op=True)",
        "work.wait()\nexpect(mine, values[place])",
    ),
    "reduce_scatter": (
        "given, found = torch.cat([mine + n for n in range(len(AMONG))]), torch.empty_like(mine)\n"
        "work = dist.reduce_scatter_tensor(found, given, op={op}, group=group, async_op=True)",
        "work.wait()\nexpect(found, reduced([one + place for one in values]))",
    ),
    "all_to_all": (
        "given = torch.cat([mine + n for n in range(len(AMONG))])\n"
        "found = torch.empty_like(given)\n"
        "work = dist.all_to_all_single(found, given, group=group, async_op=True)",
        "work.wait()\nexpect(found, torch.cat([one + place for one in values]))",
    ),
    "ring": (
        "found, after, before = torch.empty_like(mine), AMONG[(place + 1) % len(AMONG)], AMONG[place - 1]\n"
        "works = [dist.isend(mine, after, group=group), dist.irecv(found, before, group=group)]",
        "for work in works:\n    work.wait()\nexpect(found, values[place - 1])",
    ),
    "batched ring": (
        "found, after, before = torch.empty_like(mine), AMONG[(place + 1) % len(AMONG)], AMONG[place - 1]\n"
        "both = [dist.P2POp(dist.isend, mine, after, group), dist.P2POp(dist.irecv, found, before, group)]\n"
        "works = dist.batch_isend_irecv(both)",
        "for work in works:\n    work.wait()\nexpect(found, values[place - 1])",
    ),
    "any source": (
        "work = dist.isend(mine, {root}, group=group) if rank != {root} else None",
        "if rank == {root}:\n"
        "    found = {{}}\n"
        "    for _ in AMONG[1:]:\n"
        "        one = torch.empty_like(mine)\n"
        "        found[dist.recv(one, group=group)] = one\n"
        "    assert sorted(found) == [each for each in AMONG if each != {root}], found\n"
        "    for sender, one in found.items():\n"
        "        expect(one, values[AMONG.index(sender)])\n"
        "else:\n"
        "    work.wait()",
    ),
    # Each sends two messages, and receives the later one first.
    "tags": (
        "both, after, before = [mine, mine + 1], AMONG[(place + 1) % len(AMONG)], AMONG[place - 1]\n"
        "found = [torch.empty_like(mine) for _ in both]\n"
        "works = [dist.isend(both[tag], after, group=group, tag=tag) for tag in (0, 1)]\n"
        "works += [dist.irecv(found[tag], before, group=group, tag=tag) for tag in (1, 0)]",
        "for work in works:\n    work.wait()\n"
        "expect(torch.stack(found), torch.stack([values[place - 1], values[place - 1] + 1]))",
    ),
    "objects": (
        "found = [None] * len(AMONG)",
        'dist.all_gather_object(found, {{"ranks": AMONG[: place + 1]}}, group=group)\n'
        'assert [each["ranks"][-1] for each in found] == AMONG, found',
    ),
    "store": (
        'store = dist.PrefixStore("talk{number}", dist.distributed_c10d._get_default_store())\n'
        "keys = list(map(str, AMONG))\n"
        'store.add("come", 1)\n'
        "store.set(str(rank), str(place))",
        "store.wait(keys)\n"
        'assert store.check(keys) and store.add("come", 0) == len(AMONG), "not all have come"\n'
        "assert [int(store.get(key)) for key in keys] == [*range(len(AMONG))]",
    ),
    "sharded tensor": (
        "whole = torch.stack(values + values)\n"
        'sharded = distribute_tensor(whole, DeviceMesh.from_group(group, "cpu"), [Shard({dim})])',
        "for placement in (Shard({across}), Replicate()):\n"
        "    sharded = sharded.redistribute(placements=[placement])\n"
        "    expect(sharded.full_tensor(), whole)\n"
        "    expect((sharded + sharded).sum(0).full_tensor(), 2 * whole.sum(0))",
    ),
    "remote gradients": (
        'given, after = mine.double().requires_grad_(), f"rank{{AMONG[(place + 1) % len(AMONG)]}}"',
        "with dist_autograd.context() as context:\n"
        "    product = rpc.rpc_sync(after, torch.mul, args=(given, given))\n"
        "    dist_autograd.backward(context, [product.sum()])\n"
        "    expect(dist_autograd.get_gradients(context)[given], 2 * given.detach())",
    ),
    "barrier": ("work = dist.barrier(group=group, async_op=True)", "work.wait()"),
}
#: what has no tensor
WITHOUT_VALUES: frozenset[Call] = frozenset({"objects", "barrier", "store"})
#: what else is imported for a call
IMPORTS: dict[str, tuple[str, ...]] = {
    "sharded tensor": (
        "from torch.distributed.device_mesh import DeviceMesh",
        "from torch.distributed.tensor import Replicate, Shard, distribute_tensor",
    ),
    "remote gradients": (
        "import torch.distributed.autograd as dist_autograd",
        "import torch.distributed.rpc as rpc",
    ),
}
#: of several values, by operator
_REDUCED = {
    "SUM": "torch.stack(values).sum(0)",
    "PRODUCT": "torch.stack(values).prod(0)",
    "MAX": "torch.stack(values).amax(0)",
    "MIN": "torch.stack(values).amin(0)",
    "AVG": "torch.stack(values).sum(0) / len(values)",
}


def lines_of(talk: Talk, number: int) -> str:
    """The function ``talkN(rank, group)``."""
    words = {
        "op": f"dist.ReduceOp.{talk.operator}",
        "root": talk.among[talk.root],
        "place": talk.root,
        "dim": talk.root % 2,
        "across": 1 - talk.root % 2,
        "number": number,
    }
    repeated = ".repeat(100_000)" if talk.large else ""
    begun, then = (part.format(**words) for part in _LINES[talk.call])
    lines = [f"AMONG = {list(talk.among)}", "place = AMONG.index(rank)"]
    if talk.call not in WITHOUT_VALUES:
        lines += [
            f"values = [torch.arange(1, 4, dtype=torch.{talk.dtype}){repeated} + each for each in AMONG]",
            "mine = values[place].clone()",
        ]
    head = [
        f"def talk{number}(rank, group):",
        f'    """{talk.call} of ranks {", ".join(map(str, talk.among))}."""',
    ]
    if "reduced(" in then:
        head += ["    def reduced(values):", f"        return {_REDUCED[talk.operator]}", ""]
    body = [*lines, *begun.splitlines(), "yield", *then.splitlines()]
    return "\n".join([*head, *(f"    {line}" for line in body)]) + "\n"
