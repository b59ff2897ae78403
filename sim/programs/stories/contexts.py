"""Stories about a tensor that was received in one autograd context and is used in a pass of another.

Only a pass of the first can send gradients to where the tensor came from: whoever begins one of the
second hears of it, on whichever worker the tensor is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from squall.model.program.stories import stories_of
from squall.real.autograd import api as autograd
from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.wire_names import label_module
from squall.real.worker import current_worker
from squall.sim.programs.stories.api import told
from squall.sim.programs.stories.calls import SHORT_S, error_of, sleep

label_module(__name__, "contexts")
story = stories_of(__name__, rank=120)

#: the first context when the pass of the second one begins: none of its passes has begun, one is over,
#: or one goes on
_NO_PASS, _AFTER_A_PASS, _IN_A_PASS = range(3)
#: when the first context is released: before the second one is made, before its pass, or in that
_BEFORE_IT, _BEFORE_ITS_PASS, _IN_ITS_PASS = range(3)
#: what such a pass says
_ELSEWHERE, _GONE = "only a pass of that context", "Autograd context no longer valid"


def _leaf(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


def square(x: Tensor) -> Tensor:
    return x * x


def sum_of(kept: Any, z: Tensor) -> Tensor:
    """What is kept here, and something that comes in the context of this call."""
    value: Tensor = kept.local_value()
    return value + z


def _future(what: str) -> Future[None]:
    return Future(runtime=current_worker().runtime, what=what)


class _Received:
    """The square of a leaf of this worker, received in a context that another task has open: here, or,
    if ``remote``, kept where the leaf was received. The context is released with the block."""

    context_id: int
    _value: Tensor
    _kept: Any = None

    def __init__(self, to: int, remote: int) -> None:
        self._to = to
        self._remote = remote
        self.leaf = _leaf(1, 2)
        self._made = _future("a value received in a context of its own")
        self._enough = _future("the end of a context")
        self._ended = _future("the release of a context")

    def __enter__(self) -> _Received:
        self._spawn(self._receive)
        self._made.wait()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._enough.done():
            self._enough.mark_completed(None)
            self._ended.wait()

    @staticmethod
    def _spawn(run: Callable[[], None]) -> None:
        worker = current_worker()
        worker.runtime.spawn(run, name="story", worker=worker, daemon=False)

    def _receive(self) -> None:
        try:
            with autograd.context() as self.context_id:
                if self._remote:
                    self._kept = rpc.remote(self._to, square, args=(self.leaf,))
                    self._value = self._kept.to_here()
                else:
                    self._value = rpc.rpc_sync(self._to, square, args=(self.leaf,))
                self._made.mark_completed(None)
                self._enough.wait()
        except Exception as error:
            (self._ended if self._made.done() else self._made).set_error(error)
        else:
            self._ended.mark_completed(None)

    def release(self, *_: object) -> None:
        """Release the context, and give others time to hear of it."""
        self._enough.mark_completed(None)
        self._ended.wait()
        sleep(SHORT_S)

    def plus(self, z: Tensor) -> Tensor:
        """With ``z``, in the context that this is called in."""
        there: Tensor
        if self._remote:
            there = rpc.rpc_sync(self._to, sum_of, args=(self._kept, z))
            return there
        there = rpc.rpc_sync(self._to, square, args=(z,))
        return self._value + there

    def run_pass(self, hook: Callable[[Tensor], None] | None = None) -> None:
        """A pass of its own context, which every message of that takes part in."""
        value = self._value * 1
        if hook is not None:
            value.register_hook(hook)
        autograd.backward(self.context_id, [value.sum()], retain_graph=True)

    def begin_pass(self) -> Future[None]:
        """Let another task run such a pass, which takes long."""
        ended = _future("a pass of another context")

        def run() -> None:
            error_of(lambda: self.run_pass(lambda grad: sleep(2 * SHORT_S)))
            ended.mark_completed(None)

        self._spawn(run)
        sleep(SHORT_S)
        return ended

    def gradient(self) -> list[float] | None:
        found = autograd.get_gradients(self.context_id).get(self.leaf)
        return None if found is None else found.tolist()


@story(
    "tensor of another context",
    numbers={"remote": (0, 1), "state": (0, 2), "passes": (1, 2)},
    port_only="PyTorch fails an assertion of its own, or adds to the pass of the other context that "
    "goes on",
    errors=(_ELSEWHERE,),
)
def tensor_of_another_context(to: int, remote: int, state: int, passes: int) -> str:
    """A tensor that was received in a context which is still open is used in passes of another one:
    each fails with an error that names both. The first context's own passes are not touched."""
    facts: dict[str, bool] = {}
    with _Received(to, remote) as received:
        own = None
        if state == _AFTER_A_PASS:
            received.run_pass()
        elif state == _IN_A_PASS:
            own = received.begin_pass()
        for number in range(passes):
            with autograd.context() as context_id:
                root = received.plus(_leaf(3, 4)).sum()
                # Retained: a pass of the first one needs the part of the graph that they share.
                said = error_of(partial(autograd.backward, context_id, [root], retain_graph=True))
                facts[f"pass {number} names its context"] = f"context {context_id} has" in said
                other = f"context {received.context_id}: {_ELSEWHERE}"
                facts[f"pass {number} names the other one"] = other in said
                found = autograd.get_gradients(context_id)
                facts[f"pass {number} gives the leaf no gradient"] = received.leaf not in found
        if own is not None:
            own.wait()
        facts["passes of the first context are not touched"] = received.gradient() == (
            None if state == _NO_PASS else [2.0, 4.0]
        )
        received.run_pass()
        facts["nor is one that begins then"] = received.gradient() == (
            [2.0, 4.0] if state == _NO_PASS else [4.0, 8.0]
        )
    return told(**facts)


@story(
    "tensor of a released context",
    numbers={"remote": (0, 1), "when": (0, 2), "own": (0, 1)},
    errors=(_GONE,),
)
def tensor_of_a_released_context(to: int, remote: int, when: int, own: int) -> str:
    """A tensor is used in a pass of another context than the one it was received in, which is released
    before that or meanwhile: the pass fails with an error that says so."""
    with _Received(to, remote) as received:
        if own:
            received.run_pass()
        if when == _BEFORE_IT:
            received.release()
        with autograd.context() as context_id:
            found = received.plus(_leaf(3, 4)) * 1
            if when == _BEFORE_ITS_PASS:
                received.release()
            elif when == _IN_ITS_PASS:
                found.register_hook(received.release)
            said = error_of(lambda: autograd.backward(context_id, [found.sum()]))
            gone = received.leaf not in autograd.get_gradients(context_id)
    return told(it_is_said=_GONE in said, no_gradient=gone)
