"""Acts on the workers of a run, over RPC and distributed autograd."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from squall.model.program.acts.act import Act, How
from squall.model.program.acts.executor import At, Pending
from squall.model.program.acts.expected import (
    CREATION_TIMED_OUT,
    FREED,
    HAS_ONE,
    PLANTED_THERE,
    timed_out,
)
from squall.model.program.acts.kind import kind_of
from squall.model.program.stories import PLANTED, StoryError
from squall.real.autograd import api as autograd
from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.functions import async_execution
from squall.real.rpc.wire_names import label_module
from squall.real.runtime import current_task
from squall.real.worker import current_worker

label_module(__name__, "performed")
label_module("squall.model.program.acts.act", "acts")

#: what an error is, by what its text has in it: the first that fits
_KINDS_OF_ERRORS = (
    ("RRef creation via rpc.remote() timed out", CREATION_TIMED_OUT),
    ("Trying to backward through the graph a second time", FREED),
    ("Already have an autograd context id for this thread", HAS_ONE),
    (PLANTED, PLANTED_THERE),
    # PyTorch's engine tells no more of an error of Python in a hook on another worker.
    ("python_error", PLANTED_THERE),
)
#: the error of a call whose time was up
_RAN_OUT = re.compile(r"RPC ran for more than set timeout \((\d+) ms\)")
#: where a worker notes what its hooks told, with the id of the context
_TOLD = "told by hooks"


def perform_acts(acts: Sequence[Act]) -> list[str]:
    """What acts on this worker tell, and the error with which they end, if they do."""
    at = _Here()
    try:
        at.do(acts)
    except Exception as error:
        at.tell(at.said(error))
    return at.lines


class _Call(Pending):
    """A call, by the future of the lines that are told there."""

    def __init__(self, at: _Here, future: Any) -> None:
        self._at = at
        self._future = future

    def wait(self) -> None:
        self._at.lines += self._future.wait()

    def then(self, acts: Sequence[Act]) -> Pending:
        def callback(done: Any) -> list[str]:
            lines: list[str] = done.wait()
            return [*lines, *_done(acts, _Here())]

        return _Call(self._at, self._future.then(callback))


class _Here(At):
    """The worker that this runs on."""

    def __init__(self, tensor: Tensor | None = None, context_id: int | None = None) -> None:
        super().__init__(rpc.get_worker_info().id)
        self._tensor = tensor
        self._context_id = context_id

    def do(self, acts: Sequence[Act]) -> None:
        for act in acts:
            kind_of(act).do(act, self)

    def sleep(self, seconds: float) -> None:
        current_task().runtime.sleep(seconds)

    def fail(self) -> None:
        raise StoryError(PLANTED)

    def said(self, error: Exception) -> str:
        text = str(error)
        for part, kind in _KINDS_OF_ERRORS:
            if part in text:
                return f"{type(error).__name__}: {kind}"
        if (ran := _RAN_OUT.search(text)) is not None:
            return f"{type(error).__name__}: {timed_out(int(ran[1]))}"
        return f"{type(error).__name__}: {text}"

    def call(
        self,
        to: int,
        acts: Sequence[Act],
        limit_s: float | None,
        *,
        how: How = "async",
        with_reference: bool = False,
    ) -> Pending:
        args = (acts, self.references[-1]) if with_reference else (acts,)
        if how == "sync":
            self.lines += rpc.rpc_sync(to, do_acts, args=args, **_limited(limit_s))
            return _Call(self, None)
        return _Call(self, rpc.rpc_async(to, do_acts, args=args, **_limited(limit_s)))

    def call_later(
        self, to: int, acts: Sequence[Act], seconds: float, limit_s: float | None
    ) -> None:
        self.lines += rpc.rpc_sync(to, do_acts_later, args=(acts, seconds), **_limited(limit_s))

    def create(self, to: int, acts: Sequence[Act], limit_s: float | None) -> None:
        self.references.append(rpc.remote(to, make_told, args=(acts,), **_limited(limit_s)))

    def fetch(self, limit_s: float | None) -> None:
        self.lines += self.references[-1].to_here(**_limited(limit_s)).lines

    def ask(self, acts: Sequence[Act], limit_s: float | None, how: How) -> None:
        reference, limited = self.references[-1], _limited(limit_s)
        if how == "sync":
            self.lines += reference.rpc_sync(**limited).do(acts)
        elif how == "async":
            self.lines += reference.rpc_async(**limited).do(acts).wait()
        else:
            self.lines += reference.remote(**limited).do(acts).to_here()

    def context(self, acts: Sequence[Act]) -> None:
        with autograd.context() as context_id:
            self._context_id = context_id
            leaf = self._tensor = torch.ones(2, dtype=torch.float64, requires_grad=True)
            try:
                self.do(acts)
                gradient = autograd.get_gradients(context_id).get(leaf)
            except BaseException:
                self._lines_of_hooks(context_id)  # Nobody reads them, and nobody else takes them.
                raise
            finally:
                self._tensor = self._context_id = None
        self.tell(f"gradient {'none' if gradient is None else int(gradient[0])}")
        self.lines += self._lines_of_hooks(context_id)

    def _lines_of_hooks(self, context_id: int) -> list[str]:
        """What hooks of a context have told, worker by worker, which they are taken from."""
        workers = sorted(info.id for info in rpc._get_current_rpc_agent().get_worker_infos())
        return [
            line
            for worker in workers
            for line in rpc.rpc_sync(worker, told_by_hooks, args=(context_id,))
        ]

    def multiply(self, factor: int) -> None:
        self._tensor = self._here() * factor

    def carry(self, to: int, acts: Sequence[Act], how: How) -> None:
        args = (acts, self._here(), self._context_id)
        if how == "sync":
            lines, tensor = rpc.rpc_sync(to, do_acts_with, args=args)
        elif how == "async":
            lines, tensor = rpc.rpc_async(to, do_acts_with, args=args).wait()
        else:
            lines, tensor = rpc.remote(to, do_acts_with, args=args).to_here()
        self.lines += lines
        self._tensor = tensor

    def hook(self, acts: Sequence[Act], times: int) -> None:
        key = (_TOLD, self._context_id)
        left = [times]

        def hook(grad: Tensor) -> None:
            if left[0]:
                left[0] -= 1
                at = _Here()
                at.lines = current_worker().locals.setdefault(key, [])
                at.do(acts)

        # It refers to nothing that has the tensor: a circle of references would keep the graph.
        self._here().register_hook(hook)

    def backward(self, retain_graph: bool) -> None:
        assert self._context_id is not None
        autograd.backward(self._context_id, [self._here().sum()], retain_graph)

    def release_another(self) -> None:
        begun: Future[int] = Future()

        def begin() -> None:
            begun.set_result(autograd._new_context()._context_id())

        current_task().runtime.spawn(begin, name="another context", worker=current_worker())
        autograd._release_context(begun.wait())

    def _here(self) -> Tensor:
        assert self._tensor is not None
        return self._tensor


def _done(acts: Sequence[Act], at: _Here) -> list[str]:
    at.do(acts)
    return at.lines


def _limited(limit_s: float | None) -> dict[str, float]:
    return {} if limit_s is None else {"timeout": limit_s}


# -- what is called -------------------------------------------------------------------------------


def do_acts(acts: Sequence[Act], reference: Any = None) -> list[str]:
    """What acts tell that are done on this worker."""
    at = _Here()
    if reference is not None:
        at.references.append(reference)
    return _done(acts, at)


@async_execution
def do_acts_later(acts: Sequence[Act], seconds: float) -> Future[list[str]]:
    """As :func:`do_acts`, after so many seconds."""
    done: Future[list[str] | Exception] = Future()

    def later() -> None:
        current_task().runtime.sleep(seconds)
        try:
            done.set_result(do_acts(acts))
        except Exception as error:
            # A new one: on the way that this one came is the future.
            done.set_result(type(error)(str(error)))

    current_task().runtime.spawn(later, name="acts", worker=current_worker())
    return done.then(_lines_of)


def _lines_of(done: Future[list[str] | Exception]) -> list[str]:
    """Raises what went wrong. An error that is set on a future is a value to those who call from
    elsewhere, on PyTorch (finding late-error-is-a-value); one that a callback raises is an error."""
    lines = done.value()
    if isinstance(lines, Exception):
        raise type(lines)(str(lines))
    return lines


class Told:
    """An object of a worker: what acts told that made it, and what does others."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def do(self, acts: Sequence[Act]) -> list[str]:
        return do_acts(acts)


def make_told(acts: Sequence[Act]) -> Told:
    return Told(do_acts(acts))


def do_acts_with(acts: Sequence[Act], tensor: Tensor, context_id: int) -> tuple[list[str], Tensor]:
    """As :func:`do_acts`, with the tensor of a context; and what it then is."""
    at = _Here(tensor, context_id)
    lines = _done(acts, at)
    return lines, at._here()


def told_by_hooks(context_id: int) -> list[str]:
    """What hooks of the context have told on this worker."""
    lines: list[str] = current_worker().locals.pop((_TOLD, context_id), [])
    return lines
