"""Stories about what surrounds calls: the profiler, TorchScript, gathers, callbacks.

As in sim/programs/stories/api.py, each returns "as it should be" or the names of the facts that do
not hold.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from squall.model.program.stories import AS_IT_SHOULD_BE, PLANTED, StoryError, stories_of
from squall.real.autograd import api as autograd
from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.all_gather import _all_gather, _broadcast_to_followers, _gather_to_leader
from squall.real.rpc.optimizer import DistributedOptimizer
from squall.real.rpc.profiling import REMOTE_KEY, LegacyProfiler, ProfilerOptions, profiler_of
from squall.real.rpc.state import rpc_state
from squall.real.rpc.wire_names import label_module
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.programs.host import here
from squall.sim.programs.stories.api import scalar, told, whoami
from squall.sim.programs.stories.calls import SHORT_S, SLOW_S, echo, error_of, fail, sleep, slow
from squall.sim.programs.stories.passes import LR, PlainSGD, parameters

label_module(__name__, "services")
story = stories_of(__name__, rank=50)

#: part of the error of an operator with two results
_TWO = "got a vector of size 2"

# -- what is called -------------------------------------------------------------------------------


def tripled(x: Tensor, times: int = 3) -> Tensor:
    """Three times ``x``; compiled by TorchScript at its first use."""
    return x * times


def through(to: int, x: Tensor) -> Tensor:
    """A call within a call."""
    found: Tensor = rpc.rpc_sync(to, scalar, args=(x,))
    return found


def gather(value: Any, names: set[str]) -> dict[str, Any]:
    return _all_gather(value, names)


def double_in_place(tensors: list[Tensor]) -> list[Tensor]:
    for tensor in tensors:
        tensor.mul_(2)
    return tensors


def leave() -> None:
    raise SystemExit(PLANTED)


def hesitate(names: list[str]) -> str:
    """A gather on a worker that takes too long to hear how it ended."""
    key, plain = ",".join(names), _broadcast_to_followers

    def late(sequence_id: tuple[str, int], objects_map: dict[str, Any]) -> None:
        if sequence_id[0] == key:
            sleep(SLOW_S)
        plain(sequence_id, objects_map)

    replaced = rpc_state(current_worker()).replaced
    replaced[plain.__name__] = late
    try:
        return hasty(names)
    finally:
        del replaced[plain.__name__]


def hasty(names: list[str]) -> str:
    return error_of(lambda: _all_gather(1, names, timeout=SHORT_S))


# -- callbacks ------------------------------------------------------------------------------------


@story("callbacks at home", drawn="rarely")
def callbacks_at_home(to: int) -> str:
    """Callbacks run on the worker that made the call, however it ends, and may call themselves."""
    home = whoami()
    came = rpc.rpc_async(to, echo, args=(1,))
    raised = rpc.rpc_async(to, fail, args=(KeyError,))
    late = rpc.rpc_async(to, slow, args=(1, SLOW_S), timeout=SHORT_S)
    gone = error_of(lambda: rpc.rpc_sync(to, leave))
    unsent = rpc.rpc_async(to, slow, args=(1, SLOW_S), timeout=-2)
    calls = (came, raised, late, unsent)
    where = [call.then(lambda _: whoami()) for call in calls]
    asked = [call.then(lambda _: rpc.rpc_async(to, whoami)) for call in calls]
    failed = [error_of(call.wait) for call in calls]
    return told(
        where=[each.wait() for each in where] == [home] * 4,
        further_calls=[each.wait().wait() for each in asked] == [to] * 4,
        came=failed[0] == "no error but 1",
        raised="KeyError" in failed[1],
        late=f"({SHORT_S * 1000:.0f} ms)" in failed[2],
        never="set timeout" in failed[3],
        gone=f"SystemExit: {PLANTED}" in gone,
        again=[error_of(call.wait) for call in calls] == failed,
    )


# -- profiles -------------------------------------------------------------------------------------


def _ranges(marks: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Begin and end of each range, in microseconds; of the last one of its name."""
    open: dict[int, tuple[str, float]] = {}
    found: dict[str, tuple[float, float]] = {}
    for mark in marks:
        if mark["kind"] == "push":
            open[mark["handle"]] = (mark["name"], mark["time_us"])
        elif mark["kind"] == "pop" and mark["handle"] in open:
            name, began = open.pop(mark["handle"])
            found[name] = (began, mark["time_us"])
    for name, _ in open.values():
        found[name] = (0.0, 0.0)
    return found


@story(
    "profiled",
    drawn="rarely",
    port_only="PyTorch's profiler reads the clock of the machine, which virtual time does not move",
)
def profiled(to: int) -> str:
    """A profile has each call as a range, of its length, and what the call did elsewhere."""
    home, task = current_worker(), current_task()
    third = (to + 1) % _workers()
    way, back = f"({home.name} -> worker{to})", f"(worker{to} -> worker{third})"
    torch.ones(1) + 1
    profiler = LegacyProfiler(home, ProfilerOptions())
    profiler.start()
    twice = error_of(LegacyProfiler(home, ProfilerOptions()).start)
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with autograd.context() as context_id:
        y = rpc.rpc_sync(to, through, args=(third, x))
        z = rpc.rpc_async(to, torch.mul, args=(x, 2)).wait()
        kept = rpc.remote(to, slow, args=(1, SHORT_S))
        broken = rpc.rpc_async(to, fail, args=(ValueError,))
        error = error_of(broken.wait)
        late = error_of(rpc.rpc_async(to, slow, args=(1, SLOW_S), timeout=SHORT_S).wait)
        created = kept._get_profiling_future().wait()
        autograd.backward(context_id, [y + z.sum()])
        gradient = autograd.get_gradients(context_id)[x].tolist()
    value = kept.to_here()
    profiler.stop()
    mine, *others = profiler.finish()
    ranges = _ranges(mine)
    kept_range = ranges.get(f"rpc_remote#slow{way}", (0.0, 0.0))
    inner = f"rpc_sync#through{way}{REMOTE_KEY}rpc_sync#scalar{back}"
    names = [mark["name"] for thread in others for mark in thread]
    nodes = {mark["name"]: mark["node_id"] for thread in others for mark in thread}
    node = "torch::distributed::autograd::RecvRpcBackward"
    whole = ranges.get("torch::distributed::autograd::backward", (0.0, 0.0))
    return told(
        one_at_a_time="already enabled" in twice and profiler_of(task) is None,
        called=y.item() == 2 and gradient == [4.0, 4.0] and created is None and value == 1,
        failed=PLANTED in error and f"rpc_async#fail{way}" in ranges,
        given_up="set timeout" in late and f"rpc_async#slow{way}" in ranges,
        ended=all(0 < began < ended for began, ended in ranges.values()),
        length=kept_range[1] - kept_range[0] >= SHORT_S * 1e6,
        operator=f"rpc_async#aten::mul{way}" in ranges,
        elsewhere=f"rpc_async#aten::mul{way}{REMOTE_KEY}aten::mul" in names,
        within=inner in names and nodes[inner] == to,
        further=any(
            name.startswith(f"{inner}{REMOTE_KEY}aten::") and nodes[name] == third for name in names
        ),
        pass_and_nodes=whole[0] < ranges.get(node, (0.0, 0.0))[0] < whole[1],
        told_apart=all(mark["is_remote"] for thread in others for mark in thread)
        and not any(mark["is_remote"] for mark in mine),
        of_this_worker={mark["node_id"] for mark in mine} == {home.id},
    )


# -- TorchScript ----------------------------------------------------------------------------------


@functools.cache
def _compiled() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(tripled)


@story(
    "operators",
    drawn="rarely",
    on_torch=("functions-of-torchscript", "not so: by_its_name"),
    errors=(_TWO,),
)
def operators(to: int) -> str:
    """Operators of torch and functions of TorchScript go by their names, with what they need."""
    x = torch.arange(3.0, dtype=torch.float64, requires_grad=True)
    script = _compiled()
    kept = rpc.remote(to, torch.add, args=(x.detach(), 1), kwargs={"alpha": 2})
    two = error_of(partial(rpc.rpc_sync, to, torch.max, args=(x.detach(), 0)))
    wrong = error_of(partial(rpc.rpc_async, to, torch.add, args=("x", [])))
    one, three = torch.ones((), dtype=torch.float64), torch.arange(3.0, dtype=torch.float64)
    clamped = [
        rpc.rpc_sync(to, torch.clamp, args=(three, limit)).tolist() for limit in (one, three + 1)
    ]
    sent = [torch.eye(2), torch.eye(2).to_sparse(), torch.arange(4.0).reshape(2, 2).t()]
    before = [tensor.to_dense().clone() for tensor in sent]
    doubled = rpc.rpc_sync(to, double_in_place, args=(sent,))
    unnamed = error_of(partial(rpc.rpc_sync, to, script, args=(x.detach(),)))
    with autograd.context() as context_id:
        y = rpc.rpc_sync(to, torch.sum, args=(x,), kwargs={"dim": 0, "keepdim": True})
        z = rpc.rpc_async(to, torch.mul, args=(x, x)).wait()
        autograd.backward(context_id, [y.sum() + z.sum()])
        gradient = autograd.get_gradients(context_id)[x].tolist()
    return told(
        keywords=y.shape == (1,) and y.item() == 3 and z.tolist() == [0.0, 1.0, 4.0],
        gradient=gradient == [1.0, 3.0, 5.0],
        kept=kept.to_here().tolist() == [2.0, 3.0, 4.0],
        overloads=clamped == [[1.0, 1.0, 2.0], [1.0, 2.0, 3.0]],
        copies=all(
            torch.equal(mine.to_dense(), was) for mine, was in zip(sent, before, strict=True)
        ),
        changed_there=all(
            torch.equal(theirs.to_dense(), was * 2)
            for theirs, was in zip(doubled, before, strict=True)
        ),
        one_value=f"should be a single IValue, {_TWO}" in two,
        some_overload="failed to match any schema" in wrong,
        by_its_name="not the same object" in unnamed,
    )


# -- gathers --------------------------------------------------------------------------------------


@story("gathers", drawn="alone")
def gathers(to: int) -> str:
    """Two workers give each other objects, and one gives itself one."""
    home = whoami()
    alone: dict[str, Any] = _all_gather([1], {f"worker{home}"})
    if to == home:
        return told(alone=alone == {f"worker{home}": [1]})
    names = {f"worker{home}", f"worker{to}"}
    theirs = rpc.rpc_async(to, gather, args=("there", names))
    mine = _all_gather("here", names)
    both = {f"worker{home}": "here", f"worker{to}": "there"}
    return told(
        alone=alone == {f"worker{home}": [1]}, mine=mine == both, theirs=theirs.wait() == both
    )


@story(
    "gathers that fail",
    drawn="never",
    port_only="after a gather whose time is up PyTorch's workers count their gathers differently, "
    "and the next one of the same workers waits for ever",
)
def failing_gathers(to: int) -> str:
    """A worker that waits alone gets a timeout; the leader refuses one that is not a member of the
    gather, or that comes twice."""
    home = whoami()
    if to == home:
        return AS_IT_SHOULD_BE
    names = sorted((f"worker{home}", f"worker{to}"))
    follower = rpc.rpc_async(names[1], hesitate, args=(names,))
    leader = rpc.rpc_sync(names[0], hasty, args=(names,))
    followed = follower.wait()
    now = current_task().runtime.now
    began = now()
    lonely = error_of(lambda: _all_gather(1, names, timeout=SHORT_S))
    took = now() - began
    left = any(each == ",".join(names) for each, _ in rpc_state(current_worker()).gathers)
    key = (",".join(names), 1000)
    report = partial(rpc.rpc_sync, names[0], _gather_to_leader)
    stranger = error_of(partial(report, args=(key, "nobody", 1, tuple(names))))
    first = error_of(partial(report, args=(key, names[1], 1, tuple(names))))
    again = error_of(partial(report, args=(key, names[1], 1, tuple(names))))
    return told(
        follower="timed out in _all_gather" in followed,
        leader=f"Followers ['{names[1]}'] timed out in _all_gather" in leader,
        lonely=f"timed out in _all_gather after {SHORT_S:.2f} seconds" in lonely,
        nothing_left=not left,
        in_time=SHORT_S / 2 < took < SLOW_S,
        stranger="nobody is not expected by leader" in stranger,
        once=first == "no error but None" and "twice" in again,
    )


# -- optimizers -----------------------------------------------------------------------------------


class Uneven(PlainSGD):
    """Its step fails on one worker, and takes long on others."""

    def __init__(self, params: list[Tensor], lr: float, fails_on: int) -> None:
        super().__init__(params, lr)
        self.fails_on = fails_on

    def step(self) -> None:
        if whoami() == self.fails_on:
            raise StoryError(PLANTED)
        sleep(SHORT_S)
        super().step()


@story("steps", drawn="rarely", on_torch=("optimizer-keeps-grad", "not so: stepped, all_of_them"))
def steps(to: int) -> str:
    """An optimizer step changes parameters that have a gradient in its context and no others, on
    each worker even if it fails on another one, and ends when it has ended on all workers."""
    home = whoami()
    (a, b), (c,) = parameters([1, 2]), rpc.rpc_sync(to, parameters, args=([3],))
    untouched = b.local_value()
    untouched.grad = before = torch.tensor([7.0], dtype=torch.float64)
    optimizer = DistributedOptimizer(PlainSGD, [a, b, c], lr=LR)
    functional = DistributedOptimizer(torch.optim.SGD, [b], lr=LR)
    uneven = DistributedOptimizer(Uneven, [a, b, c], lr=LR, fails_on=home)
    with autograd.context() as context_id:
        autograd.backward(context_id, [(a.to_here() * 2 + c.to_here() * 4).sum()])
        unknown = error_of(lambda: optimizer.step(context_id + (1 << 30)))
        optimizer.step(context_id)
        functional.step(context_id)
        stepped = [each.to_here().item() for each in (a, b, c)]
        kept = untouched.grad is before
        failed = error_of(lambda: uneven.step(context_id))
        kept = kept and untouched.grad is before
        after = [each.to_here().item() for each in (a, b, c)]
    return told(
        one_for_each_worker=len(optimizer.remote_optimizers) == (1 if to == home else 2),
        known_context=unknown.startswith("RuntimeError: Could not find autograd context with id"),
        stepped=stepped == [1 - 2 * LR, 2.0, 3 - 4 * LR],
        others_as_they_were=kept,
        failed=PLANTED in failed,
        all_of_them=after == [1 - 2 * LR, 2.0, 3 - (4 if to == home else 8) * LR],
    )


#: how often a callback looks whether the worker is shutting down
_PATIENCE = 100


# -- the end --------------------------------------------------------------------------------------


@story(
    "after the end",
    drawn="alone",
    on_torch=("references-after-shutdown", "not so: new_reference, own_value"),
)
def after_the_end(to: int) -> Callable[[], str]:
    """A worker that has shut down makes no calls; a reference that it still has can be neither
    fetched nor passed on, and says why, while a value of its own stays as it is."""
    owner = to if to != whoami() else (to + 1) % _workers()
    theirs, mine = rpc.remote(owner, echo, args=(1,)), rpc.RRef([1])
    fetched = theirs.to_here()
    here().kept.append(theirs)
    reference = weakref.ref(theirs)

    def tell() -> str:
        calls: list[Callable[[], Any]] = [
            partial(rpc.rpc_sync, to, echo, args=(1,)),
            partial(rpc.rpc_async, to, torch.add, args=(1, 1)),
            partial(rpc.remote, to, echo, args=(1,)),
            rpc.get_worker_info,
            rpc.shutdown,
        ]
        refused = [error_of(call) for call in calls]
        kept = reference()  # gone, if all references were dropped before the shutdown
        new = error_of(lambda: rpc.RRef(1))
        return told(
            fetched=fetched == 1,
            refused=all("RPC has not been initialized" in text for text in refused),
            new_reference="Current RPC agent is not set" in new,
            own_value=error_of(mine.local_value) == "no error but [1]",
            fetch=kept is None or "Cannot call to_here() on it after" in error_of(kept.to_here),
            fork=kept is None or "Cannot call fork an UserRRef after" in error_of(kept._serialize),
        )

    return tell


@story(
    "callback at the end",
    drawn="alone",
    port_only="nobody sees from outside for what PyTorch's shutdown waits at a moment",
)
def callback_at_the_end(to: int) -> Callable[[], str]:
    """A call is over when its callbacks are: a worker that shuts down waits for one that takes
    long, and that may still make calls."""
    worker = current_worker()
    said: list[str] = []

    def late(_: Future[Any]) -> None:
        for _attempt in range(_PATIENCE):  # until only calls are waited for
            if worker.shut_down:
                break
            sleep(SHORT_S)
        sleep(SHORT_S)
        said.append(error_of(lambda: rpc.rpc_sync(to, echo, args=(1,))))

    if here().shuts_down_early:
        rpc.rpc_async(to, slow, args=(1, SHORT_S)).add_done_callback(late)
    else:
        said.append("no error but 1")
    return lambda: told(called=said == ["no error but 1"])


def _workers() -> int:
    return len(rpc._get_current_rpc_agent().get_worker_infos())
