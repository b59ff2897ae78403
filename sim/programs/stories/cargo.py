"""Carries cargo: calls with data of every shape (model/program/cargo.py)."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from squall.model.program.cargo_values import (
    build,
    computed,
    difference,
    facts,
    loss_of,
    tensors_in,
    write,
)
from squall.model.program.stories import AS_IT_SHOULD_BE, PLANTED, StoryError
from squall.real.autograd import api as autograd
from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.functions import async_execution
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.stories.calls import sleep

label_module(__name__, "cargo")
label_module("squall.model.program.cargo_values", "cargo_values")

# -- on the worker that is called -------------------------------------------------------------------


class Unwritable:
    """Cannot be pickled."""

    def __reduce__(self) -> NoReturn:
        raise StoryError(PLANTED)


class Unreadable:
    """Can be pickled, and not unpickled: it is made of a text that is no number."""

    def __reduce__(self) -> Any:
        return int, (PLANTED,)


def give_unwritable(value: Any) -> Any:
    return value, Unwritable()


def give_unreadable(value: Any) -> Any:
    return Unreadable(), value


class Keeper:
    """Has what came, until it is asked for it again."""

    def __init__(self) -> None:
        self.value: Any = None
        #: gradients of what came, as they came
        self.gradients: list[Any] = []

    def take(self, value: Any, writes: bool, computes: bool) -> Any:
        """What came, in words; what came, written to; and something computed of it."""
        told = facts(value)
        results = []
        if computes:
            for tensor in tensors_in(value):
                if tensor.requires_grad and not tensor.is_leaf:
                    tensor.register_hook(self.gradients.append)
            results = computed(value)
        if writes:
            write(value)
        self.value = value
        return told, value, results

    def again(self) -> tuple[list[str], list[str]]:
        """What it has, in words, and the gradients."""
        return facts(self.value), values_of(self.gradients)

    def write(self) -> None:
        """Write to what it has, and to the gradients."""
        write(self.value)
        write(self.gradients)


def number_of(number: Any) -> Any:
    return number


def take(keeper: Any, value: Any, writes: bool, computes: bool) -> Any:
    return keeper.local_value().take(value, writes, computes)


@async_execution
def take_later(keeper: Any, value: Any, writes: bool, computes: bool) -> Future[Any]:
    """As :func:`take`, but the result is there only when a further call has ended."""
    taken = take(keeper, value, writes, computes)
    later: Future[Any] = rpc.rpc_async(keeper.owner(), number_of, args=(0,))
    return later.then(lambda _: taken)


def pass_on(to: int, keeper: Any, value: Any, writes: bool, computes: bool) -> Any:
    return rpc.rpc_sync(to, take, args=(keeper, value, writes, computes))


# -- on the worker that calls -----------------------------------------------------------------------


def refer(worker: int, number: int) -> Any:
    return rpc.remote(worker, number_of, args=(number,))


class Number:
    """Stands for a reference where nothing travels."""

    def __init__(self, worker: int, number: int) -> None:
        self.number = number

    def to_here(self) -> int:
        return self.number


def send(cargo: dict[str, Any], to: int, keeper: Any, value: Any) -> Any:
    """Make the call of a cargo, and return what it returns."""
    rest = (cargo["writes"], cargo["passes"] > 0)
    args = (keeper, value, *rest)
    how = cargo["call"]
    if how == "sync":
        return rpc.rpc_sync(to, take, args=args)
    if how == "async":
        return rpc.rpc_async(to, take, args=args).wait()
    if how == "remote":
        return rpc.remote(to, take, args=args).to_here()
    if how == "async_execution":
        return rpc.rpc_sync(to, take_later, args=args)
    if how == "proxy_sync":
        return keeper.rpc_sync().take(value, *rest)
    if how == "proxy_async":
        return keeper.rpc_async().take(value, *rest).wait()
    if how == "proxy_remote":
        return keeper.remote().take(value, *rest).to_here()
    via = cargo["via"][0] if cargo["via"] else to
    return rpc.rpc_sync(via, pass_on, args=(to, *args))


def fail(why: str, to: int, keeper: Any, value: Any) -> str | None:
    """Make a call that fails, with the message; what is wrong if it does not."""
    calls: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "argument": (number_of, (keeper, [value, Unwritable()])),
        "reading": (number_of, ([value, Unreadable(), keeper],)),
        "result": (give_unwritable, ([keeper, value],)),
        # Without the message: what a reply has of it that nobody reads is never fed a gradient.
        "reply": (give_unreadable, (keeper,)),
    }
    function, args = calls[why]
    try:
        rpc.rpc_sync(to, function, args=args)
    except Exception as error:
        if "injected" in str(error):
            raise  # by a fault, in the function: its error is an answer, and no gradient comes for it
        return None
    return f"a call whose {why} is to make it fail did not fail"


def carry(cargo: dict[str, Any], to: int) -> str:
    """Carry a cargo to a worker: whether all is as it should be, or the first thing that is not."""
    wrong = carry_alone(cargo["parts"], to)
    if wrong is not None:
        return wrong
    if not cargo["passes"]:
        return carry_in(cargo, to, None)
    with autograd.context() as context_id:
        return carry_in(cargo, to, context_id)


def carry_alone(parts: Any, to: int) -> str | None:
    """Some tensors of the message by themselves, there and back; what is wrong with them."""
    sent, wanted = tensors_in(build(parts, Number)), tensors_in(build(parts, Number, arrived=True))
    for at in sorted({0, len(sent) // 2, len(sent) - 1} if sent else ()):
        came = rpc.rpc_sync(to, number_of, args=(sent[at],))
        wrong = difference(facts([wanted[at]]), facts([came]))
        if wrong is not None:
            return f"by itself {wrong}"
    return None


def carry_in(cargo: dict[str, Any], to: int, context_id: int | None) -> str:
    parts = cargo["parts"]
    sent = build(parts, refer)
    wanted = build(parts, Number, arrived=True)
    keeper = rpc.remote(to, Keeper)
    if cargo["fails"] is not None:
        wrong = fail(cargo["fails"], to, keeper, sent)
        if wrong is not None:
            return wrong
    held: list[Any] = []
    for tensor in leaves_of(sent):
        tensor.register_hook(held.append)
    told, came, results = send(cargo, to, keeper, sent)
    wrong = difference(facts(wanted), told)
    if wrong is not None:
        return f"there {wrong}"
    if cargo["writes"]:
        write(wanted)
    wrong = difference(facts(wanted), facts(came))
    if wrong is not None:
        return f"back {wrong}"
    gradients: list[Any] = []
    if context_id is not None and results:
        loss = loss_of(results)
        for time in range(cargo["passes"]):
            autograd.backward(context_id, [loss], retain_graph=time + 1 < cargo["passes"])
        found = autograd.get_gradients(context_id)
        gradients = [found.get(tensor) for tensor in leaves_of(sent)]
        wrong = gradients_differ(cargo, gradients, held)
        if wrong is not None:
            return wrong
    del results
    return look_again(cargo, to, keeper, wanted, (sent, came, gradients, held))


def leaves_of(value: Any) -> list[Any]:
    """The tensors whose gradients come back."""
    return [each for each in tensors_in(value) if each.requires_grad and type(each) is torch.Tensor]


def gradients_differ(cargo: dict[str, Any], gradients: list[Any], held: list[Any]) -> str | None:
    """What is wrong with gradients, and with those that hooks were given; None if nothing is."""
    local = build(cargo["parts"], Number)
    kept: list[Any] = []
    for tensor in leaves_of(local):
        tensor.register_hook(kept.append)
    loss = loss_of(computed(local))
    for time in range(cargo["passes"]):
        loss.backward(retain_graph=time + 1 < cargo["passes"])
    wanted = [tensor.grad for tensor in leaves_of(local)]
    wrong = difference(values_of(wanted), values_of(gradients))
    if wrong is not None:
        return f"gradients {wrong}"
    wrong = difference(sorted(values_of(kept)), sorted(values_of(held)))
    return None if wrong is None else f"gradients in hooks {wrong}"


def values_of(tensors: list[Any]) -> list[str]:
    return [
        "None"
        if each is None
        else f"{each.dtype} {tuple(each.shape)} {each.stride()} {each.tolist()}"
        for each in tensors
    ]


def look_again(
    cargo: dict[str, Any], to: int, keeper: Any, wanted: Any, mine: tuple[Any, Any, Any, Any]
) -> str:
    """Each side writes to what it has; the other must not see it."""
    sent, came, gradients, held = mine
    still = values_of(held)
    sleep(cargo["wait_s"])
    # Within a worker a reference gives the value itself.
    at_home = keeper.is_owner() and came is keeper.local_value().value
    write([sent, gradients] if at_home else [sent, gradients, came])
    kept, kept_gradients = keeper.rpc_sync().again()
    looks = [
        ("what is kept there", facts(wanted), kept),
        ("gradients there", sorted(still), sorted(kept_gradients)),
    ]
    keeper.rpc_sync().write()
    looks.append(("a gradient that a hook was given", still, values_of(held)))
    if not at_home:
        write(wanted)
        looks.append(("what came back", facts(wanted), facts(came)))
    for what, before, after in looks:
        wrong = difference(before, after)
        if wrong is not None:
            return f"{what} {wrong}"
    return AS_IT_SHOULD_BE
