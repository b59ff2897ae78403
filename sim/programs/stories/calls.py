"""Stories about calls: timeouts, errors, callbacks, references that come late.

Each function runs in a task of its own on a trainer's worker, calls worker ``to``, and returns one
line about the result. The decorator gives the story's name and the expected line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from squall.model.program.stories import PLANTED, StoryError, stories_of
from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.functions import async_execution
from squall.real.rpc.rref_proxy import _rref_typeof_on_owner
from squall.real.rpc.wire_names import label_module
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.programs.host import here

label_module(__name__, "calls")
story = stories_of(__name__, rank=10)

#: virtual seconds that a slow function takes, and the timeout of a call that gives it up
SLOW_S, SHORT_S = 3.0, 1.0
#: calls at once that are more than a worker has threads
CROWD = 20

TIMED_OUT = (
    f"RPCErr:1:RPC ran for more than set timeout ({SHORT_S * 1000:.0f} ms) and will now be "
    "marked with an error"
)
CREATION_TIMED_OUT = "RuntimeError: RRef creation via rpc.remote() timed out"
_HANDLER = f"Error on Node <to>: StoryError: {PLANTED}"


def _said_by_torch() -> str:
    """The error of an operator whose arguments do not fit: its text differs between releases."""
    try:
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    except RuntimeError as error:
        return str(error)
    raise AssertionError("torch.mm multiplied matrices that do not fit")


_OPERATOR = _said_by_torch()


def error_of(call: Callable[[], Any]) -> str:
    """The type and text of what ``call`` raises, or what it returns."""
    try:
        value = call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"no error but {value!r}"


def sleep(seconds: float) -> None:
    current_task().runtime.sleep(seconds)


# -- what is called -------------------------------------------------------------------------------


def echo(value: Any) -> Any:
    return value


def slow(value: Any, seconds: float) -> Any:
    sleep(seconds)
    return value


def slow_reference(value: Any, seconds: float) -> Any:
    sleep(seconds)
    return rpc.RRef(value)


def fail(kind: type[Exception]) -> None:
    raise kind(PLANTED)


@async_execution
def fail_later() -> Future[None]:
    future: Future[None] = Future()

    def later() -> None:
        sleep(0.001)
        future.set_exception(StoryError(PLANTED))

    current_task().runtime.spawn(later, name="story", worker=current_worker())
    return future


def unreadable(text: str) -> None:
    raise StoryError(text)


class Unreadable:
    """Raises on the worker that unpickles it."""

    def __reduce__(self) -> Any:
        return unreadable, (PLANTED,)


class Unwritable:
    """Raises where it is pickled."""

    def __reduce__(self) -> Any:
        raise StoryError(PLANTED)


def make_unwritable() -> Unwritable:
    return Unwritable()


def recompute(numbers: list[float]) -> Tensor:
    """What unpickling a :class:`Computed` does."""
    return torch.tensor(numbers, requires_grad=True) * 2


class Computed:
    """Is unpickled as a tensor that is computed then, under whatever grad mode there is."""

    def __reduce__(self) -> Any:
        return recompute, ([1.0, 2.0],)


def make_computed() -> Computed:
    return Computed()


def is_confirmed(rref: Any) -> bool:
    confirmed: bool = rref.confirmed_by_owner()
    return confirmed


def crowd() -> int:
    """How many calls of this function run on this worker as one of them begins."""
    locals = current_worker().locals
    locals["crowd"] = seen = locals.get("crowd", 0) + 1
    sleep(0.01)
    locals["crowd"] -= 1
    return int(seen)


def scribble(values: dict[str, Any]) -> dict[str, Any]:
    """Overwrite the given tensors, which are this worker's own copies, and return them."""
    values["a"].add_(1)
    values["list"].append(3)
    return values


# -- stories ---------------------------------------------------------------------------------------


@story("timeout", expected=f"RuntimeError: {TIMED_OUT}; after {SHORT_S:g} s; 2")
def timeout(to: int) -> str:
    """A call that takes too long fails at its time limit; one without a limit ends when it ends."""
    now = current_task().runtime.now
    began = now()
    error = error_of(lambda: rpc.rpc_sync(to, slow, args=(1, SLOW_S), timeout=SHORT_S))
    took = now() - began
    patient = rpc.rpc_sync(to, slow, args=(2, SLOW_S), timeout=0)
    return f"{error}; after {took:g} s; {patient}"


@story("late reference", expected=f"RuntimeError: {TIMED_OUT}")
def late_reference(to: int) -> str:
    """A reply with a reference that arrives after the timeout of its call changes nothing, and leaves
    nothing."""
    error = error_of(lambda: rpc.rpc_sync(to, slow_reference, args=(1, SLOW_S), timeout=SHORT_S))
    sleep(2 * SLOW_S)
    return error


@story("late creation", expected="[True, True]; True")
def late_creation(to: int) -> str:
    """An RRef whose creation took too long can be neither fetched nor passed on."""
    rref = rpc.remote(to, slow, args=(1, SLOW_S), timeout=SHORT_S)
    sleep(2 * SHORT_S)
    fetched = error_of(rref.to_here)
    passed = error_of(partial(rpc.rpc_sync, to, echo, args=(rref,)))
    confirmed = rref.confirmed_by_owner()
    del rref
    sleep(2 * SLOW_S)
    told = [text.startswith(CREATION_TIMED_OUT) for text in (fetched, passed)]
    return f"{told}; {confirmed}"


def _slow_creation(home: int, to: int) -> str:
    if to == home:
        return "no error but 1; 1"  # the owner waits for its own value without a limit of time
    return f"RuntimeError: {TIMED_OUT}; 1"


@story("slow creation", expected=_slow_creation)
def slow_creation(to: int) -> str:
    """A fetch that takes too long says nothing about the RRef."""
    rref = rpc.remote(to, slow, args=(1, SLOW_S), timeout=0)
    fetched = error_of(lambda: rref.to_here(timeout=SHORT_S))
    return f"{fetched}; {rref.to_here(timeout=0)}"


@story(
    "failed creation",
    expected="; ".join([f"RuntimeError: {_HANDLER}"] * 3),
)
def failed_creation(to: int) -> str:
    """An RRef whose function could not even be read has the error in the place of a value."""
    early = error_of(rpc.remote(to, echo, args=(Unreadable(),)).to_here)
    rref = rpc.remote(to, echo, args=(Unreadable(),))
    created = error_of(lambda: rref._get_future().wait())
    fetched = error_of(rref.to_here)
    return f"{early}; {created}; {fetched}"


@story(
    "callbacks",
    expected="3; 4; [3, 5]; [3, 3, 3]; RuntimeError: Got the following error when running the callback: "
    f"StoryError: {PLANTED}",
)
def callbacks(to: int) -> str:
    """A callback that raises does not keep others from being called, and every waiting task wakes
    up."""
    seen: list[int] = []
    woken: list[int] = []
    future = rpc.rpc_async(to, slow, args=(3, 0.01))
    failed = future.then(lambda _: unreadable(PLANTED))
    future.add_done_callback(lambda _: unreadable(PLANTED))
    future.add_done_callback(lambda done: seen.append(done.value()))
    task = current_task()
    for _ in range(3):
        task.runtime.spawn(lambda: woken.append(future.wait()), name="story", worker=task.worker)
    chained = future.then(lambda done: done.value() + 1)
    value = future.wait()
    last = chained.wait()
    error = error_of(failed.wait)
    future.add_done_callback(lambda done: seen.append(done.value() + 2))
    sleep(0.001)
    return f"{value}; {last}; {seen}; {woken}; {error}"


@story(
    "operator error",
    expected=f"RuntimeError: {_OPERATOR}; RuntimeError: {_OPERATOR}",
    errors=(_OPERATOR,),
)
def operator_error(to: int) -> str:
    """An operator of torch that raises gives its error, called and as the value of a reference."""
    wrong = (torch.ones(2, 3), torch.ones(2, 3))
    called = error_of(lambda: rpc.rpc_sync(to, torch.mm, args=wrong))
    rref = rpc.remote(to, torch.mm, args=wrong)
    return f"{called}; {error_of(rref.to_here)}"


@story(
    "late error",
    expected=f"RuntimeError: StoryError: {PLANTED}; RuntimeError: StoryError: {PLANTED}",
)
def late_error(to: int) -> str:
    """A future that fails after its function has returned fails the call, or the fetch of the
    reference."""
    called = error_of(lambda: rpc.rpc_sync(to, fail_later))
    rref = rpc.remote(to, fail_later)
    return f"{called}; {error_of(rref.to_here)}"


@story("exceptions", expected="ValueError ValueError TypeError TypeError RuntimeError KeyError")
def exceptions(to: int) -> str:
    """What a function raises is raised by its call, in its type where there is one for it."""
    seen: list[str] = []
    for kind in (ValueError, TypeError, KeyError):
        rref = rpc.remote(to, fail, args=(kind,))
        for call in (partial(rpc.rpc_sync, to, fail, args=(kind,)), rref.to_here):
            error = error_of(call)
            named = f"On WorkerInfo(id={to}, name=" in error and PLANTED in error
            seen.append(error.split(":")[0] if named else error)
    return " ".join(seen)


@story("unreadable argument", expected=f"RuntimeError: {_HANDLER}; True")
def unreadable_argument(to: int) -> str:
    """A request that cannot be read fails, and the reference in it can be passed on with the next."""
    rref = rpc.remote(to, echo, args=(1,))
    failed = error_of(lambda: rpc.rpc_sync(to, echo, args=([rref, Unreadable()],)))
    return f"{failed}; {rpc.rpc_sync(to, is_confirmed, args=(rref,))}"


@story("unwritable", expected=f"StoryError: {PLANTED}; RuntimeError: StoryError: {PLANTED}")
def unwritable(to: int) -> str:
    """An argument, with a reference before it, and a result that cannot be pickled: each call fails
    with the error."""
    rref = rpc.RRef(1)
    argument = error_of(lambda: rpc.rpc_sync(to, echo, args=([rref, Unwritable()],)))
    return f"{argument}; {error_of(lambda: rpc.rpc_sync(to, make_unwritable))}"


@story("confirmation", expected="True")
def confirmation(to: int) -> str:
    """References are confirmed once their creation is, and before a function is given them."""
    rref = rpc.remote(to, echo, args=(1,))
    seen = [rpc.rpc_sync(to, is_confirmed, args=(rref,))]
    rref._get_future().wait()
    seen.append(rref.confirmed_by_owner())
    for worker in rpc._get_current_rpc_agent().get_worker_infos():
        seen.append(rpc.rpc_sync(worker, is_confirmed, args=(rref,)))
    return f"{all(seen)}"


def keep(rref: Any) -> None:
    """Keep a reference until the program, or this worker, ends."""
    here().kept.append(rref)


@story("left behind", expected="sent")
def left_behind(to: int) -> str:
    """A reference is on its way to a worker, and another one at its owner, as the trainer ends: none
    is left."""
    owner = (to + 1) % len(rpc._get_current_rpc_agent().get_worker_infos())
    rref = rpc.remote(owner, echo, args=(1,))
    rpc.rpc_async(to, keep, args=(rref,))
    return "sent"


@story("reply without grad", expected="[False, True]")
def reply_without_grad(to: int) -> str:
    """A reply is read under the grad mode that its call was made under."""
    with torch.no_grad():
        off = rpc.rpc_async(to, make_computed)
    on = rpc.rpc_async(to, make_computed)
    with torch.no_grad():
        seen = [future.wait().requires_grad for future in (off, on)]
    return f"{seen}"


@story("crowd", expected=f"True; {CROWD}")
def crowded(to: int) -> str:
    """More calls at once than a worker has threads: all are served, not all at once."""
    futures = [rpc.rpc_async(to, crowd) for _ in range(CROWD)]
    most = max(future.wait() for future in futures)
    size = int(rpc._get_current_rpc_agent().get_metrics()["agent.thread_pool_size"])
    return f"{most <= size}; {len(futures)}"


@story(
    "crowd before a creation",
    expected=f"int; {CROWD}; 1",
    port_only="each such request occupies a thread there until the value is made, and of more of "
    "them than there are threads the creation finds none",
)
def crowd_before_a_creation(to: int) -> str:
    """Requests about an RRef may arrive before the call that creates it, more of them than there
    are threads: they must not occupy all threads, so that the call can run."""
    rref = rpc.remote(to, echo, args=(1,))
    futures = [rpc.rpc_async(to, _rref_typeof_on_owner, args=(rref,)) for _ in range(CROWD)]
    types = dict.fromkeys(future.wait().__name__ for future in futures)
    return f"{' '.join(types)}; {len(futures)}; {rref.to_here()}"


@story("structures", expected=f"{[True] * 8}")
def structures(to: int) -> str:
    """Tensors arrive as copies, wherever they are, with their flags, and aliased as they were."""
    base = torch.arange(6.0).reshape(2, 3)
    grad = torch.ones(2, requires_grad=True)
    values: dict[str, Any] = {
        "a": base,
        "b": base,
        "t": base.t(),
        "list": [grad, (1, "x", None)],
        "n": torch.ones(()),
    }
    got = rpc.rpc_sync(to, scribble, args=(values,))
    same = [
        torch.equal(base, torch.arange(6.0).reshape(2, 3)),
        torch.equal(got["a"], base + 1),
        len(values["list"]) == 2,
        got["list"][1:] == [(1, "x", None), 3],
        got["list"][0].requires_grad,
        not got["n"].requires_grad,
        tuple(got["t"].shape) == (3, 2),
        got["n"].item() == 1,
    ]
    return f"{same}"
