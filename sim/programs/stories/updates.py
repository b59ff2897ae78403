"""Makes updates of what is shared (model/program/updates.py)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from squall.model.program.program import Program
from squall.model.program.stories import AS_IT_SHOULD_BE, PLANTED, RAISED, StoryError
from squall.real.autograd import api as autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.functional_twins import register_twin
from squall.real.rpc.optimizer import DistributedOptimizer
from squall.real.rpc.wire_names import label_module
from squall.real.runtime import current_task
from squall.sim.programs.stories.calls import sleep

label_module(__name__, "updates")


def new_lock() -> Any:
    """A lock as user code makes one."""
    return current_task().runtime.lock("a ledger")


# -- on the workers that own -------------------------------------------------------------------------


class Slow:
    """Gradient descent that lets others run between what it reads and what it writes."""

    def __init__(self, params: list[Tensor], lr: float, pause_s: float, fails_at: int) -> None:
        self.params = params
        self.lr = lr
        self.pause_s = pause_s
        #: number of the step that raises
        self.fails_at = fails_at
        self.steps = 0

    def begin(self) -> None:
        self.steps += 1
        sleep(self.pause_s)
        if self.steps == self.fails_at:
            raise StoryError(PLANTED)

    def step(self) -> None:
        self.begin()
        for param in self.params:
            if param.grad is not None:
                before = param.detach().clone()
                sleep(self.pause_s)
                with torch.no_grad():
                    param.copy_(before - self.lr * param.grad)
        sleep(self.pause_s)


class Failing(Slow):
    """Raises on one worker when its step is done, at once; on others a step takes long."""

    def __init__(self, params: list[Tensor], lr: float, pause_s: float, fails_on: int) -> None:
        here: int = rpc.get_worker_info().id
        self.fails = here == fails_on
        super().__init__(params, lr, 0.0 if self.fails else pause_s, 0)

    def step(self) -> None:
        super().step()
        if self.fails:
            raise StoryError(PLANTED)


class Hesitant(Slow):
    """Gradient descent that lets others run before it looks at gradients and when it is done.

    None of torch's own: the first of a process imports its compiler, in frames that stay."""

    def step(self) -> None:
        self.begin()
        with torch.no_grad():
            for param in self.params:
                if param.grad is not None:
                    param.sub_(param.grad, alpha=self.lr)
        sleep(self.pause_s)


class Registered:
    """The optimizer whose functional twin is :class:`RegisteredTwin`: it takes no step itself."""


class RegisteredTwin(Slow):
    """As :class:`Slow`, given the gradients."""

    def step(self, gradients: list[Tensor | None]) -> None:  # type: ignore[override]
        self.begin()
        for param, grad in zip(self.params, gradients, strict=True):
            if grad is not None:
                before = param.detach().clone()
                sleep(self.pause_s)
                with torch.no_grad():
                    param.copy_(before - self.lr * grad)
        sleep(self.pause_s)


def register_for(program: Program) -> None:
    """Register the twin with torch, once in a process, if a program needs it. To be called outside
    of workers: it compiles torch's own twins."""
    steps = (step for _, _, step in program.steps)
    if any(updates.stepper == "registered" for step in steps for updates in step.updates):
        register_twin(Registered, RegisteredTwin)


class Ledger:
    """A sum that is read and written under a lock, with a wait in between."""

    def __init__(self, pause_s: float) -> None:
        self.lock = new_lock()
        self.pause_s = pause_s
        self.total = 0
        self.inside = 0
        self.most_inside = 0

    def add(self, number: int) -> int:
        with self.lock:
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
            before = self.total
            sleep(self.pause_s)
            self.total = before + number
            self.inside -= 1
            return self.total

    def read(self) -> tuple[int, int]:
        with self.lock:
            return self.total, self.most_inside


def parameter() -> Tensor:
    """A parameter that has a gradient already, which no step may use or take away."""
    made = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    made.grad = torch.full((2,), 0.5, dtype=torch.float64)
    return made


def has_gradient(param: Any) -> bool:
    return param.local_value().grad is not None


# -- on the workers that train -----------------------------------------------------------------------


def optimizer_of(updates: dict[str, Any], params: list[Any]) -> Any:
    """With a learning rate of one: each parameter is less by the gradients of all steps."""
    if updates["stepper"] == "functional":
        return DistributedOptimizer(torch.optim.SGD, params, lr=1.0)
    kind = {"slow": Slow, "hesitant": Hesitant, "registered": Registered}[updates["stepper"]]
    rest = {"pause_s": updates["pause_s"], "fails_at": 2 if updates["fails"] else 0}
    return DistributedOptimizer(kind, params, lr=1.0, **rest)


def add_to(ledger: Any, call: str, number: int) -> int:
    found: int
    if call == "async":
        found = ledger.rpc_async().add(number).wait()
    elif call == "remote":
        found = ledger.remote().add(number).to_here()
    else:
        found = ledger.rpc_sync().add(number)
    return found


def left_out(updates: dict[str, Any], number: int) -> int:
    """The parameter that an update leaves out; -1 if it leaves out none."""
    count = len(updates["owners"])
    return number % count if updates["skips"] and count > 1 else -1


def train(
    updates: dict[str, Any], first: int, params: list[Any], optimizer: Any, ledger: Any
) -> list[str]:
    """The updates from number ``first`` on: of each the error that it came to, or nothing."""
    if optimizer is None:
        optimizer = optimizer_of(updates, params)
    errors = []
    for number in range(first, first + updates["steps"]):
        try:
            with autograd.context() as context_id:
                update = 2.0**number
                used = [p for at, p in enumerate(params) if at != left_out(updates, number)]
                loss = sum((param.to_here() * update).sum() for param in used)
                autograd.backward(context_id, [loss])
                optimizer.step(context_id)
            total = add_to(ledger, updates["ledger"], 2**number)
            errors.append("" if total >> number & 1 else f"the ledger came to {total}")
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    return errors


# -- on the trainer's worker --------------------------------------------------------------------------

#: seconds that the workers take which do not fail
LONG_S = 0.05


def fail_once(updates: dict[str, Any], params: list[Any], number: int) -> list[int]:
    """Update parameters, with an optimizer that raises on the owner of the first: what each of them
    must have of that, as soon as the step has ended."""
    failing = updates["owners"][0]
    optimizer = DistributedOptimizer(Failing, params, lr=1.0, pause_s=LONG_S, fails_on=failing)
    used = params[:-1] if updates["skips"] and len(params) > 1 else params
    with autograd.context() as context_id:
        loss = sum((param.to_here() * 2.0**number).sum() for param in used)
        autograd.backward(context_id, [loss])
        try:
            optimizer.step(context_id)
        except Exception as error:
            if PLANTED not in str(error):
                raise
        else:
            raise AssertionError("a step that fails on a worker came to no error")
    return [1 << number if at < len(used) else 0 for at in range(len(params))]


def complaint(what: str, found: int, must: int, may: int) -> str | None:
    """What is wrong with a sum of powers of two; None if nothing is."""
    if found & must != must or found & ~may:
        return f"{what}: updates {found:b}, expected {must:b}"
    return None


def update_together(updates: dict[str, Any], to: int) -> str:
    """Make all updates: whether each of them happened once, or what is wrong."""
    params = [rpc.remote(owner, parameter) for owner in updates["owners"]]
    ledger = [rpc.remote(to, Ledger, args=(updates["pause_s"],))]
    optimizer: list[Any] = []
    try:
        if updates["waits"]:
            for at in range(len(params)):
                params[at].to_here()
            ledger[0].rpc_sync().read()
        if updates["shared"]:
            optimizer.append(optimizer_of(updates, params))
        return updated(updates, params, ledger[0], optimizer[0] if optimizer else None)
    finally:
        # In one order: that in which variables end depends on the version of Python.
        for held in (ledger, optimizer, params):
            held.clear()


def updated(updates: dict[str, Any], params: list[Any], ledger: Any, optimizer: Any) -> str:
    """The same, with what is updated."""
    steps = updates["steps"]
    calls = [
        rpc.rpc_async(worker, train, args=(updates, at * steps, params, optimizer, ledger))
        for at, worker in enumerate(updates["trainers"])
    ]
    may, done, failed = 0, 0, ""
    for at, call in enumerate(calls):
        errors = ["unknown"] * steps
        try:
            errors = call.wait()
        except Exception as error:
            failed = f"{type(error).__name__}: {error}"
        for number, said in enumerate(errors, at * steps):
            may |= 1 << number
            done |= (not said) << number
            if said not in ("", "unknown") and PLANTED not in said:
                failed = said
    numbers = range(steps * len(calls))
    more = [0] * len(params)
    if updates["fails"]:
        more = fail_once(updates, params, steps * len(calls))
    for at, param in enumerate(params):
        out = sum(1 << number for number in numbers if left_out(updates, number) == at)
        # A step that came to an error at its trainer may go on at the owners.
        if not failed and not rpc.rpc_sync(param.owner(), has_gradient, args=(param,)):
            return f"parameter {at} has lost the gradient that it had"
        for element in param.to_here().tolist():
            if not element.is_integer():
                return f"parameter {at} is {element}"
            wrong = complaint(
                f"parameter {at}", round(-element), done & ~out | more[at], may & ~out | more[at]
            )
            if wrong is not None:
                return wrong
    total, most_inside = ledger.rpc_sync().read()
    wrong = complaint("the ledger", total, done, may)
    if wrong is None and most_inside > 1:
        wrong = f"{most_inside} were at the ledger at once"
    if wrong is not None:
        return wrong
    return f"{RAISED} {failed}" if failed else AS_IT_SHOULD_BE
