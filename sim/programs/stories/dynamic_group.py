"""A story about a group of no fixed size, beside that of the program: workers enter it and leave it
while others call each other, with names and numbers of every length."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from squall.model.program.stories import stories_of
from squall.real.autograd import api as autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.constants import DEFAULT_RPC_TIMEOUT_S
from squall.real.rpc.options import TensorPipeRpcBackendOptions
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.stories.api import told, whoami
from squall.sim.programs.stories.calls import SLOW_S, echo, error_of, sleep, slow
from squall.sim.programs.stories.own_process import OWN_AGENTS, Visitor, network_beside
from squall.sim.world.network import Network

label_module(__name__, "visitors")
story = stories_of(__name__, rank=100)

#: limits of time that calls have if they do not say: the usual one, none, and one that strikes
_LIMITS_S = (None, 0.0, 2.0)
#: options that no backend takes
_NO_OPTIONS: tuple[dict[str, Any], ...] = (
    {"rpc_timeout": -1},
    {"rpc_timeout": float("nan")},
    {"rpc_timeout": "1"},
    {"num_worker_threads": 0},
)
#: the greatest number of a worker, and the length of the longest name
_MOST, _LONGEST = 32767, 127


def double(x: Tensor) -> Tensor:
    return x * 2


def _trains(to: str) -> list[Any]:
    """A pass through another worker, with a reference on the way: gradient, value, maker of the
    context."""
    x = torch.ones(2, requires_grad=True)
    with autograd.context() as context_id:
        rref = rpc.remote(to, double, args=(x,))
        y = rpc.rpc_sync(to, double, args=(rref.to_here(),))
        autograd.backward(context_id, [y.sum()])
        gradient = autograd.get_gradients(context_id)[x].tolist()
    return [gradient, rpc.remote(to, echo, args=(7,)).to_here(), context_id >> 48]


@story(
    "visitors",
    numbers={
        "count": (1, 4),
        "ids": (0, 2),
        "refused": (0, 3),
        "again": (0, 2),
        "at_once": (0, 1),
        "crossing": (0, 2),
        "limit": (0, len(_LIMITS_S) - 1),
    },
    longest_s=20.0,
    port_only=OWN_AGENTS,
)
def visitors(
    to: int,
    count: int,
    ids: int,
    refused: int,
    again: int,
    at_once: int,
    crossing: int,
    limit: int,
) -> str:
    """Workers enter a group one after the other or all at once, call and train each other, and
    leave, some while others enter; a name or number that is taken, or too large, is refused and
    changes nothing. All have one default limit of time, or none; options that make no sense
    are refused."""
    network, where = network_beside(), "sim://visitors"
    base = (0, _MOST - count + 1, 300)[ids]
    names = [f"v-{n}:_" for n in range(count - 1)]
    names.append("v" * (_LONGEST if ids == 1 else 1 + to))
    there = [Visitor(network, name, base + n) for n, name in enumerate(names)]
    facts: dict[str, bool] = {}
    entering = []
    for each in there:
        entering.append(each.enter(where, **_limited(limit)))
        if not at_once:
            entering[-1].wait()
    for end in entering:
        end.wait()
    everybody = sorted((each.name, each.number) for each in there)
    facts["all_see_all"] = all(each.sees() == everybody for each in there)
    facts["limits"] = _have_limit(there, _LIMITS_S[limit])
    facts["options"] = all(map(_is_refused, _NO_OPTIONS))
    facts.update(_refused(network, there, where, refused))
    for number, each in enumerate(there):
        facts[f"trains_{number}"] = _has_trained(each, there[(number + 1) % count].name)
    for time in range(again + 1):
        leaves = there.pop(time % len(there))
        leaves.do(rpc.shutdown)
        left = sorted((each.name, each.number) for each in there)
        facts[f"left_{time}"] = all(each.sees() == left for each in there)
        for each in there[:1]:
            said = error_of(lambda: each.do(partial(rpc.rpc_sync, leaves.name, whoami)))  # noqa: B023
            facts[f"gone_{time}"] = "could not find destination" in said
        if time < again:
            there.append(Visitor(network, leaves.name, leaves.number))
            there[-1].enter(where).wait()
            back = sorted((each.name, each.number) for each in there)
            facts[f"back_{time}"] = all(each.sees() == back for each in there)
            other = there[0]
            called = other.do(partial(rpc.rpc_sync, leaves.name, whoami))
            facts[f"called_{time}"] = called == leaves.number
            facts[f"trains_again_{time}"] = _has_trained(there[-1], other.name)
    if crossing and there:
        facts["crossed"] = _crossed(network, there, where, crossing)
    for each in reversed(there):
        each.do(rpc.shutdown)
    return told(**facts)


def _has_trained(visitor: Visitor, to_name: str) -> bool:
    return bool(visitor.do(partial(_trains, to_name)) == [[4.0, 4.0], 7, visitor.number])


def _limited(limit: int) -> dict[str, float]:
    limit_s = _LIMITS_S[limit]
    return {} if limit_s is None else {"limit_s": limit_s}


def _have_limit(there: list[Visitor], limit_s: float | None) -> bool:
    """Whether all know their default limit, and a call that takes longer fails, if there is one."""
    default_s = DEFAULT_RPC_TIMEOUT_S if limit_s is None else limit_s
    known = [each.do(rpc.get_rpc_timeout) for each in there]  # type: ignore[attr-defined]
    call = partial(rpc.rpc_sync, there[-1].name, slow, args=(7, SLOW_S))
    said = error_of(partial(there[0].do, call))
    sleep(SLOW_S)  # it goes on where it was called
    wanted = "set timeout (2000 ms)" if limit_s else "no error but 7"
    return known == [default_s] * len(there) and wanted in said


def _is_refused(options: dict[str, Any]) -> bool:
    return "no error" not in error_of(partial(TensorPipeRpcBackendOptions, **options))


def _crossed(network: Network, there: list[Visitor], where: str, entering: int) -> bool:
    """Whether those who are there see each other, after one has left while others entered."""
    leaves = there.pop(0)
    new = [Visitor(network, f"new-{n}", 2000 + n) for n in range(entering)]
    ends = [new[0].enter(where), leaves.begin(rpc.shutdown)]
    ends += [each.enter(where) for each in new[1:]]
    for end in ends:
        end.wait()
    there += new
    everybody = sorted((each.name, each.number) for each in there)
    return all(each.sees() == everybody for each in there)


def _refused(network: Network, there: list[Visitor], where: str, refused: int) -> dict[str, bool]:
    """Who may not enter, and what those who are there see afterwards."""
    if not refused:
        return _deserted(network, f"{where}/deserted")
    taken = there[0]
    name, number = {
        1: (taken.name, 10_000),
        2: ("stranger", taken.number),
        3: ("stranger", _MOST + 1),
    }[refused]
    stranger = Visitor(network, name, number)
    wanted = {1: "is not unique", 2: "is taken by another worker", 3: "out of bound of int16_t"}
    said = error_of(lambda: stranger.enter(where).wait())
    everybody = sorted((each.name, each.number) for each in there)
    return {
        "refused": wanted[refused] in said,
        "as_before": all(each.sees() == everybody for each in there),
        "has_no_agent": stranger.worker.agent is None,
    }


def _deserted(network: Network, where: str) -> dict[str, bool]:
    """Who enters a group of which a worker has gone without a word cannot tell it, and is no worker of
    any group then; a group of its own takes it."""
    stays, goes = (Visitor(network, name, number) for number, name in enumerate(("stays", "goes")))
    for each in (stays, goes):
        each.enter(where).wait()
    goes.do(partial(rpc.shutdown, graceful=False))
    comes = Visitor(network, "comes", 2)
    said = error_of(lambda: comes.enter(where).wait())
    facts = {"not_told": "no error" not in said, "not_in": comes.worker.agent is None}
    comes.enter(where).wait()
    facts["alone"] = comes.sees() == [("comes", 2)]
    comes.do(rpc.shutdown)
    stays.do(partial(rpc.shutdown, graceful=False))
    return facts
