"""Where a task of a program is: the operation, or the backward pass, that it is at."""

from __future__ import annotations

from types import FrameType

from squall.sim.programs import host
from squall.sim.programs.step import StepRun
from squall.sim.programs.trainer import TrainerRun
from squall.sim.world.places import called_function, tells

_CALL = StepRun._call.__code__
_LEAF = StepRun._leaf.__code__
_VALUE = StepRun._value.__code__
_AWAIT = StepRun._await.__code__
_BACKWARD = StepRun._backward.__code__
_REFER = TrainerRun._refer.__code__
_RUN_BACKWARD = host.run_backward.__code__
_PERFORM = host.Host._perform.__code__
_RELAYS = (host.relay.__code__, host.relay_async.__code__)


@tells
def place_in_program(frame: FrameType, inner: FrameType | None) -> str | None:
    """``trainers[0].steps[1].ops[2] calls``, and the like; None for a frame that is none of them."""
    code, local = frame.f_code, frame.f_locals
    if code in _RELAYS or code is _PERFORM:
        trainer, step, op, _ = local["address"]
        doing = "computes" if code is _PERFORM else "hands on"
        return f"trainers[{trainer}].steps[{step}].ops[{op}] {doing}{_in(inner)}"
    if code is _RUN_BACKWARD and inner is not None and inner.f_code is not _BACKWARD:
        return f"trainers[{local['trainer']}].steps[{local['step']}] backward{_in(inner)}"
    if code is _REFER:
        return f"trainers[{local['self'].number}] makes its references{_in(inner)}"
    if code not in (_CALL, _LEAF, _VALUE, _AWAIT, _BACKWARD):
        return None
    run: StepRun = local["self"]
    where = f"trainers[{run.trainer.number}].steps[{run.number}]"
    if code is _CALL:
        return f"{where}.ops[{local['index']}] calls{_in(inner)}"
    if code is _LEAF:
        return f"{where} fetches leaf{local['number']}{_in(inner)}"
    if code is _VALUE:
        return f"{where} fetches y{local['number']}{_in(inner)}"
    if code is _AWAIT:
        return (
            f"{where} waits y{local['number'] if 'number' in local else local['index']}{_in(inner)}"
        )
    return f"{where} backward{_in(inner)}"


def _in(inner: FrameType | None) -> str:
    called = "" if inner is None else called_function([inner])
    return f" (in {called})" if called else ""
