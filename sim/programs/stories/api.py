"""Stories about the API itself: futures, names, roots, proxies. Each tells many small things at
once.

As in sim/programs/stories/calls.py, each function runs on a trainer's worker. It returns "as it
should be" or the names of the facts that do not hold.
"""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import torch
from torch import Tensor

from squall.model.program.stories import AS_IT_SHOULD_BE, PLANTED, stories_of
from squall.real.autograd import api as autograd
from squall.real.future import Future, collect_all, wait_all
from squall.real.rpc import api as rpc
from squall.real.rpc.calls import _wait_all, collected_futures
from squall.real.rpc.functions import async_execution
from squall.real.rpc.options import TensorPipeRpcBackendOptions
from squall.real.rpc.wire_names import label_module
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.programs.stories.calls import SHORT_S, SLOW_S, echo, error_of, fail, sleep, slow

label_module(__name__, "api")
story = stories_of(__name__, rank=30)

_TEXT: Any = "1"
_TIME_IS_UP = "RPC ran for more than set timeout"
#: added to the id of a context, it gives one that does not exist
_FAR = 1 << 30
_NO_CONTEXT = "Could not find autograd context with id: "
_FREED = "a second time"
_NO_SCALAR = "all roots need to be scalar"
_NO_TENSOR = "RRef should contain a tensor"


def told(**facts: bool) -> str:
    """The names of the facts that do not hold; :data:`AS_IT_SHOULD_BE` if all do."""
    wrong = [name for name, holds in facts.items() if not holds]
    return f"not so: {', '.join(wrong)}" if wrong else AS_IT_SHOULD_BE


def _leaf(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


# -- what is called -------------------------------------------------------------------------------


def whoami() -> int:
    number: int = rpc.get_worker_info().id
    return number


def scalar(x: Tensor) -> Tensor:
    return (x * x).sum()


def vector() -> Tensor:
    return _leaf(1, 2)


class Counter:
    """An object whose methods are called through a reference."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def add(self, number: int, times: int = 1) -> int:
        self.number += number * times
        return self.number

    def fail(self) -> None:
        raise ValueError(PLANTED)

    def dawdle(self) -> int:
        sleep(SLOW_S)
        return self.number

    @async_execution
    def later(self, number: int) -> Future[int]:
        future: Future[int] = Future()

        def end() -> None:
            sleep(0.001)
            future.set_result(self.number + number)

        current_task().runtime.spawn(end, name="story", worker=current_worker())
        return future

    def scale(self, x: Tensor) -> Tensor:
        return x * 3


class _CodedError(Exception):
    """An error that is not made from its ``args``, and knows more than stands in its text."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code = code


def _code_and_text(future: Future[int]) -> tuple[int, str] | None:
    try:
        future.wait()
    except _CodedError as error:
        return error.__dict__.get("code", -1), str(error)
    return None


# -- stories ---------------------------------------------------------------------------------------


@story(
    "futures",
    drawn="rarely",
    on_torch=("refused-exception-replaces-the-value", "not so: not_failed_afterwards"),
)
def futures(to: int) -> str:
    """A future is completed once, and who waits for several gets the values in their order, or the
    first error as soon as it is there."""
    now = current_task().runtime.now
    future: Future[int] = Future()
    seen: list[int] = []
    future.add_done_callback(lambda done: seen.append(done.value()))
    pending = future.done()
    future.set_result(1)
    again = error_of(lambda: future.set_result(2))
    other: Future[int] = Future()
    other.set_result(1)
    too_late = error_of(lambda: other.set_exception(ValueError("x")))
    failed: Future[int] = Future()
    failed.set_exception(ValueError("x"))
    failed_again = error_of(lambda: failed.set_exception(ValueError("y")))
    failed_too_late = error_of(lambda: failed.set_result(1))
    none: list[Future[int]] = []
    fresh: Future[int] = Future()
    coded: Future[int] = Future()
    coded.set_exception(_CodedError(7, "x"))
    chained = future.then(lambda done: done.value() + 6)
    unchained = failed.then(lambda done: done.value())
    calls = [rpc.rpc_async(to, slow, args=(n, n * 0.01)) for n in (2, 1, 3)]
    values = wait_all(calls)
    began = now()
    long, wrong = (
        rpc.rpc_async(to, slow, args=(1, SLOW_S)),
        rpc.rpc_async(to, fail, args=(KeyError,)),
    )
    first = error_of(lambda: wait_all([long, wrong]))
    at_once = not long.done()
    pair = [long, rpc.rpc_async(to, echo, args=(5,))]
    both = collect_all(pair)
    unfinished = both.done()
    gathered = [each.value() for each in both.wait()]
    waited = long.done() and now() - began > SHORT_S
    with _wait_all():
        outer = rpc.rpc_async(to, slow, args=(1, 0.02))
    left = error_of(lambda: _with_all(to))
    return told(
        not_done_at_first=not pending,
        callback=seen == [1] and future.done(),
        completed_once="only be marked completed once" in again and future.wait() == 1,
        not_failed_afterwards="only be marked completed once" in too_late
        and error_of(other.wait) == "no error but 1",
        failed=error_of(failed.wait) == "ValueError: x",
        failed_with_all_it_knows=_code_and_text(coded) == (7, "7: x") == _code_and_text(coded),
        failed_once="only be marked completed once" in failed_again,
        not_completed_afterwards="only be marked completed once" in failed_too_late,
        chained=chained.wait() == 7 and "ValueError: x" in error_of(unchained.wait),
        an_error_is_an_exception=error_of(lambda: fresh.set_exception("x")).startswith(  # type: ignore[arg-type]
            "AssertionError"
        ),
        a_callback_can_be_called=error_of(lambda: future.then(1)).startswith("TypeError"),  # type: ignore[arg-type]
        not_pickled="Can not pickle" in error_of(partial(rpc.rpc_sync, to, echo, args=(future,))),
        values_in_order=values == [2, 1, 3] and wait_all(none) == [],
        first_error="KeyError" in first and at_once,
        all_of_them=not unfinished and waited and gathered == [1, 5],
        none_of_them=collect_all(none).wait() == [],
        block_waits_for_all=outer.done() and outer.wait() == 1,
        block_raises="KeyError" in left,
    )  # fmt: skip


@story(
    "futures of the port",
    drawn="rarely",
    port_only="block, then_async and has_error are no part of torch.futures.Future, and of blocks "
    "that wait for all their calls torch allows none within another",
)
def futures_of_the_port(to: int) -> str:
    """What the port's futures offer beyond those of PyTorch."""
    future: Future[int] = Future()
    early, impatient = error_of(future.value), future.block(0.001)
    future.set_result(1)
    failed: Future[int] = Future()
    failed.set_exception(ValueError("x"))
    asked = failed.then(lambda done: done.has_error())
    inner: Future[int] = Future()
    chained = future.then_async(lambda done: inner)
    unchained = failed.then_async(lambda done: completed_with(done.value()))
    inner.set_result(7)
    with _wait_all():
        outer = rpc.rpc_async(to, slow, args=(1, 0.02))
        with _wait_all():
            within = rpc.rpc_async(to, slow, args=(2, 0.01))
        nested = within.is_done
    left = error_of(lambda: _with_all(to))
    return told(
        value_before_the_end="not complete" in early and not impatient,
        done=future.block(1.0) and not future.has_error(),
        failed=failed.has_error() and asked.wait(),
        chained=chained.wait() == 7 and error_of(unchained.wait) == "ValueError: x",
        block_waits_for_all=nested and outer.is_done and outer.wait() == 1,
        block_raises="KeyError" in left and collected_futures() is None,
    )


def completed_with(value: int) -> Future[int]:
    future: Future[int] = Future()
    future.set_result(value)
    return future


def _with_all(to: int) -> None:
    with _wait_all():
        rpc.rpc_async(to, fail, args=(KeyError,))


def _join_again(name: Any = "again", rank: Any = 0) -> None:
    options = TensorPipeRpcBackendOptions(init_method="sim://elsewhere")
    rpc.init_rpc(name, rank=rank, world_size=1, rpc_backend_options=options)


@story("names", drawn="rarely", on_torch=("reference-to-a-copy", "not so: own_value"))
def names(to: int) -> str:
    """A worker is called by its name, its number or its WorkerInfo, and a reference knows whose
    value it refers to. What is called wrongly is refused at once."""
    home = whoami()
    me, other = rpc.get_worker_info(), rpc.get_worker_info(f"worker{to}")
    theirs, mine = rpc.remote(other, echo, args=(5,)), rpc.RRef([1])
    here = to == home
    local = error_of(theirs.local_value)
    text = repr(theirs)
    unknown = error_of(partial(rpc.rpc_sync, "nobody", whoami))
    missing = error_of(partial(rpc.rpc_async, 99, whoami))
    return told(
        own_info=(me.id, me.name) == (home, f"worker{home}"),
        found=other.id == to and other == rpc.get_worker_info(to),
        called=[rpc.rpc_sync(way, whoami) for way in (to, f"worker{to}", other)] == [to] * 3,
        unknown_name="nobody" in unknown and not unknown.startswith("no error"),
        unknown_id="99" in missing and not missing.startswith("no error"),
        no_name=error_of(partial(rpc.remote, 1.5, whoami)).startswith("ValueError: Cannot get"),
        no_function=error_of(partial(rpc.rpc_sync, to, 1)).startswith("TypeError: function should"),
        no_time=error_of(partial(rpc.rpc_sync, to, whoami, timeout=_TEXT)).startswith("TypeError"),
        negative_time=_TIME_IS_UP in error_of(partial(rpc.rpc_sync, to, slow, (1, 1), timeout=-2)),
        no_arguments=rpc.rpc_sync(to, Counter().add, args=(2,), kwargs={"times": 3}) == 6,
        owner=theirs.owner() == other and theirs.owner_name() == f"worker{to}",
        is_owner=theirs.is_owner() == here and mine.is_owner() and mine.owner() == me,
        own_value=mine.to_here() is mine.local_value(),
        confirmed=mine.confirmed_by_owner(),
        local_value=("no error but 5" if here else "can't call localValue() on user") in local,
        whose_value=here or (f"name=worker{home}" in local and f"name=worker{to}" in local),
        shown=text.startswith("OwnerRRef(" if here else "UserRRef(RRefId = "),
        not_pickled="only be pickled when using RPC" in error_of(partial(pickle.dumps, mine)),
        created=theirs._get_future().wait() is None and theirs.to_here() == 5,
    )


@story(
    "names of the port",
    drawn="rarely",
    port_only="PyTorch looks for a store of TCP before it says what is wrong with init_rpc; texts "
    "of an agent are those of the agent; and it crashes where the future of a creation is asked of "
    "a reference that no call has made",
)
def names_of_the_port(to: int) -> str:
    """What joining twice, calling nobody and asking for futures that are not there come to."""
    home = whoami()
    other = rpc.get_worker_info(to)
    theirs, mine = rpc.remote(other, echo, args=(5,)), rpc.RRef([1])
    unknown = error_of(partial(rpc.rpc_sync, "nobody", whoami))
    return told(
        found=other == rpc.get_worker_info(other),
        unknown_name=f"worker{home}," in unknown and "destination name nobody" in unknown,
        unknown_id="destination id 99" in error_of(partial(rpc.rpc_async, 99, whoami)),
        no_name_at_all="must be of type <class 'str'>" in error_of(partial(_join_again, 5)),
        one_session="already initialized" in error_of(_join_again),
        not_created="not created by rpc.remote" in error_of(mine._get_future),
        not_profiled="has not been set" in error_of(theirs._get_profiling_future),
    )


def _break_off(seen: list[int]) -> None:
    with autograd.context() as context_id:
        seen.append(context_id)
        raise KeyError


@story("roots", drawn="rarely")
def roots(to: int) -> str:
    """A pass begins at scalars that need a gradient, in a context that is there; what is refused
    leaves nothing behind."""
    with autograd.context() as context_id:
        x = _leaf(1, 2)
        loss = rpc.rpc_sync(to, scalar, args=(x,))
        backward = partial(autograd.backward, context_id)
        none = error_of(lambda: backward([]))
        ungraded = error_of(lambda: backward([torch.ones(())]))
        long = error_of(lambda: backward([loss, x * 2]))
        no_list = error_of(lambda: backward(loss))
        no_tensors = error_of(lambda: backward([loss, 1]))
        no_id = error_of(lambda: autograd.backward("1", [loss]))
        unknown = error_of(lambda: autograd.backward(context_id + _FAR, [loss]))
        untouched = autograd.get_gradients(context_id) == {}
        inside = error_of(autograd._new_context)
        counts = autograd._get_debug_info()
        separate = autograd.get_gradients(context_id) is not autograd.get_gradients(context_id)
        current = autograd._current_context()
        valid = error_of(lambda: autograd._is_valid_context(context_id))
        other = error_of(lambda: autograd._is_valid_context(context_id + _FAR))
        backward([loss, loss * 2], True)
        once = autograd.get_gradients(context_id)[x].tolist()
        backward([loss])
        twice = autograd.get_gradients(context_id)[x].tolist()
        ungathered = x.grad is None
        no_gradients = error_of(lambda: autograd.get_gradients("1"))
    gone = error_of(lambda: autograd.get_gradients(context_id))
    broken_off: list[int] = []
    raised = error_of(lambda: _break_off(broken_off))
    after_an_error = error_of(lambda: autograd.get_gradients(broken_off[0]))
    over = error_of(lambda: autograd._release_context(context_id))
    outside = error_of(autograd._current_context)
    with autograd.context() as next_id:
        reopened = autograd._current_context()._context_id() == next_id
    return told(
        some_root="No tensors provided" in none,
        roots_need_grad="requires_grad not set on root" in ungraded,
        scalar_roots=_NO_SCALAR in long,
        list_of_roots=no_list.startswith("TypeError: backward()"),
        tensors_for_roots=no_tensors.startswith("TypeError: backward()"),
        number_of_a_context=no_id.startswith("TypeError: backward()"),
        known_context=f"{_NO_CONTEXT}{context_id + _FAR}" in unknown,
        nothing_begun=untouched,
        contexts_do_not_nest="Already have an autograd context id" in inside,
        current_context=current._context_id() == context_id,
        valid_context=valid == "no error but None" and _NO_CONTEXT in other,
        counted=int(counts["num_autograd_contexts"]) > 0 and separate,
        several_roots=once == [6.0, 12.0] and twice == [8.0, 16.0],
        only_in_the_context=ungathered,
        gradients_by_number=no_gradients.startswith("TypeError: get_gradients()"),
        gone=f"{_NO_CONTEXT}{context_id}" in gone and f"{_NO_CONTEXT}{context_id}" in over,
        gone_after_an_error=raised.startswith("KeyError") and _NO_CONTEXT in after_an_error,
        none_is_current=outside.startswith("RuntimeError"),
        next_one=reopened and next_id > context_id and next_id >> 48 == whoami(),
        most_there_can_be=autograd._get_max_id() == (whoami() << 48) | ((1 << 48) - 1),
    )


@story(
    "roots by reference",
    drawn="rarely",
    on_torch=("backward-of-a-reference", "not so: local_graph_kept, value"),
    errors=(_FREED, _NO_SCALAR, _NO_TENSOR, _NO_CONTEXT),
)
def roots_by_reference(to: int) -> str:
    """``RRef.backward`` begins on the owner, which needs no context for it."""
    theirs = rpc.remote(to, vector)
    number, broken = rpc.remote(to, echo, args=(1,)), rpc.remote(to, fail, args=(ValueError,))
    here = to == whoami()
    without = error_of(number.backward)
    x = _leaf(1, 2)
    mine = rpc.RRef((x * x).sum())
    retained = error_of(partial(mine.backward, retain_graph=True))
    once = [] if x.grad is None else x.grad.tolist()
    again = error_of(mine.backward)
    spent = error_of(mine.backward)
    with autograd.context() as context_id:
        y = _leaf(3)
        squared = rpc.remote(to, scalar, args=(y,))
        squared.backward(context_id, retain_graph=True)
        squared.backward(context_id)
        found = autograd.get_gradients(context_id)[y].tolist()
        freed = error_of(partial(squared.backward, context_id))
        no_scalar = error_of(partial(theirs.backward, context_id))
        no_tensor = error_of(partial(number.backward, context_id))
        no_value = error_of(partial(broken.backward, context_id))
        unknown = error_of(partial(squared.backward, context_id + _FAR))
    return told(
        context_of_a_user=("contain a tensor" if here else "'dist_autograd_ctx_id'") in without,
        local_pass=retained == "no error but None" and once == [2.0, 4.0],
        local_graph_kept=again == "no error but None",
        local_graph_freed=_FREED in spent,
        pass_of_a_context=found == [12.0] and y.grad is None,
        graph_freed=_FREED in freed,
        scalar=_NO_SCALAR in no_scalar,
        tensor=_NO_TENSOR in no_tensor,
        value=PLANTED in no_value,
        plain_text="RuntimeError: RRef" in no_tensor and "RuntimeError: Runtime" not in no_tensor,
        known_context=_NO_CONTEXT in unknown,
    )


def _type_of(rref: Any) -> object:
    """Its type, asked for without waiting; None if what is given is no future."""
    asked = rref._get_type(blocking=False)
    return asked.wait() if isinstance(asked, Future) else None


def _kept_type(home: int, to: int) -> str:
    """What torch was told of a type first is what it says ever after, however it is asked."""
    return f"not so: type, {'' if to == home else 'type_again, '}type_at_once"


@story("proxies", drawn="rarely", on_torch=("failed-type-is-kept", _kept_type))
def proxies(to: int) -> str:
    """A method called through a reference runs on the owner, however it is called."""
    rref = rpc.remote(to, Counter, args=(1,))
    added = rref.rpc_sync().add(2, times=2)
    later = rref.rpc_async().add(1).wait()
    kept = rref.remote().add(4)
    wrong = error_of(lambda: rref.rpc_sync().fail())
    wrongly = error_of(lambda: rref.rpc_async().fail().wait())
    missing = error_of(lambda: rref.rpc_sync().nothing())
    missed = error_of(lambda: rref.rpc_async().nothing().wait())
    early = error_of(lambda: rref.rpc_sync(timeout=SHORT_S).dawdle())
    earlier = error_of(lambda: rref.rpc_async(timeout=SHORT_S).dawdle().wait())
    unready = rpc.remote(to, slow, args=(1, SLOW_S), timeout=0)
    unasked = rpc.remote(to, slow, args=(1, SLOW_S), timeout=0)
    # The time that it takes to ask for the type, before the method is called, counts, too.
    earliest = error_of(lambda: unasked.rpc_async(timeout=SHORT_S).bit_length().wait())
    asked = error_of(unready._get_type(timeout=SHORT_S, blocking=False).wait)
    asked_again = error_of(unready._get_type(timeout=0, blocking=False).wait)
    broken = rpc.remote(to, fail, args=(ValueError,))
    unmade = error_of(lambda: broken.rpc_sync().add(1))
    unmade_later = error_of(lambda: broken.rpc_async().add(1).wait())
    with autograd.context() as context_id:
        x = _leaf(1, 2)
        loss = rref.rpc_sync().scale(x).sum() + rref.rpc_async().scale(x * 2).wait().sum()
        autograd.backward(context_id, [loss])
        gradient = autograd.get_gradients(context_id)[x].tolist()
    return told(
        called=added == 5 and later == 6 and kept.to_here() == 10,
        there=kept.owner().id == to,
        called_later=rref.rpc_sync().later(5) == rref.rpc_async().later(5).wait() == 15,
        kept_later=rref.remote().later(5).to_here() == 15,
        errors=PLANTED in wrong and PLANTED in wrongly,
        types=wrong.startswith("ValueError") and wrongly.startswith("ValueError"),
        no_method="has no attribute 'nothing'" in missing and "no attribute 'nothing'" in missed,
        in_time=_TIME_IS_UP in early and _TIME_IS_UP in earlier,
        made_in_time=unasked.is_owner() or _TIME_IS_UP in earliest,
        no_value=PLANTED in unmade and PLANTED in unmade_later,
        type=rref._get_type() is Counter and _type_of(rref) is Counter,
        type_in_time=rref.is_owner() or _TIME_IS_UP in asked,
        type_again=asked_again == f"no error but {int!r}",
        type_at_once=error_of(unready._get_type) == f"no error but {int!r}",
        gradient=gradient == [9.0, 9.0],
    )
