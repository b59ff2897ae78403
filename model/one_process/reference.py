"""The single-process oracle of distributed autograd.

While a script runs on simulated workers, :class:`JointReference` keeps their autograd graphs
joined into one that plain ``torch.autograd`` can walk. Before each distributed backward pass it
computes with one ``torch.autograd.grad`` what the pass must come to, and when the pass has
ended it compares every leaf's entry in the workers' gradient maps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from squall.model.one_process.forked import CannotForkError, FailedInChildError, call_in_child
from squall.model.one_process.joint_graph import (
    JointGraph,
    RunsUserCode,
    accumulated_gradients,
    anchor,
    leaves_of,
    node_gradients,
    reference_gradients,
    rehearsed_gradients,
    walk,
)
from squall.model.program.compare import Tolerance, add, compare
from squall.real.tracing import Observer

__all__ = ["GradientSummary", "JointReference", "leaves_of", "reference_gradients"]

#: copies of the process made in one run; each costs some 20 ms
MAX_FORKS = 500
#: mismatches described; further ones are only counted
MAX_DESCRIBED = 100


@dataclass(frozen=True)
class GradientSummary:
    """How the gradients of a run compare with those of one process."""

    #: calls of ``dist_autograd.backward`` that ended without error; and, where there are process groups, passes
    #: through DistributedDataParallel, and what scripts have compared themselves
    passes: int
    #: those of them whose gradients were compared
    compared: int
    #: calls of ``dist_autograd.backward`` that began a pass and raised
    failed: int
    #: the largest difference, relative to the largest element of the expected gradient
    max_deviation: float
    #: for each pass that could not be compared: which, and why
    not_comparable: list[str]
    #: worker, context, leaf, and what was expected and found
    mismatches: list[str]

    @property
    def equal(self) -> bool | None:
        """Whether the gradients are right; None if none was compared."""
        return not self.mismatches if self.mismatches or self.compared else None

    def __str__(self) -> str:
        if self.equal is None:
            return "unknown" if self.passes else "nothing to compare"
        return "equal to one process" if self.equal else "differ"


class RehearsalError(Exception):
    """A pass that was tried out raised; the text is the error's."""


OnPass = Callable[[int, Mapping[int, Mapping[Tensor, Tensor]]], object]


@dataclass
class _Context:
    """What is known of one context; its tensors stay here until their worker releases it."""

    #: by worker: the live map of accumulated gradients
    maps: dict[int, Mapping[Tensor, Tensor]] = field(default_factory=dict)
    #: by sending worker: by message: what the recv function takes as inputs
    anchors: dict[int, dict[int, list[Tensor]]] = field(default_factory=dict)
    #: those that run, by their ids
    passes: dict[int, _Pass] = field(default_factory=dict)
    #: parts that are over: (worker, id of the pass)
    over: set[tuple[int, int]] = field(default_factory=set)
    #: by the id of a pass: the worker that called ``backward``, and its number among all
    called: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: by worker where parts have added or sent something, and caller: the last number of their passes
    latest: dict[tuple[int, int], int] = field(default_factory=dict)
    #: workers that have released the context
    released: set[int] = field(default_factory=set)
    #: why passes in this context cannot be compared, if so
    broken: str | None = None


@dataclass
class _Pass:
    worker: int
    #: what each worker's map held before, by worker; cloned, since maps are updated in place. What
    #: other passes of the context add meanwhile is added here too
    before: dict[int, dict[Tensor, Tensor]]
    expected: dict[Tensor, Tensor] = field(default_factory=dict)
    #: what the reference raised
    error: str | None = None
    not_comparable: str | None = None
    #: it is not to be compared
    left_out: bool = False


class JointReference(Observer):
    """Compares every distributed backward pass of a run with one over the joined graph.

    ``runs_user_code(node)``: whether the node has hooks, which would run twice; where a graph
    has any, or custom functions, the reference is computed in a copy of the process, in which
    ``isolate`` is called first. ``fork_always`` (also an attribute) does so for every graph.
    ``rehearse``: a context in which the code in graphs that reach a leaf of :attr:`owned` leaves no
    trace; no copy is made then, which costs as much as several scenarios. Other graphs with code in
    them are left out.
    ``exact`` asks for equal gradients instead of close ones, and ``tolerance`` for those as close
    as it says instead of what is usual for their dtype. ``clock`` gives the virtual time
    for messages, in seconds.

    A pass that succeeds adds exactly its own gradients to every leaf, whatever failed before it in
    its context, and whatever of that still runs. A pass that fails may leave what its parts had
    added by then. On a worker that has not heard of the failure, its part goes on until it has done
    what it can, until a later pass of the context reaches that worker, or until the context is
    released there. A part that is over, as that of the worker where ``backward`` was called is once
    it has raised, adds and sends nothing any more, and nothing is added to a context that was
    released, or sent for it: this is checked as each gradient is added or sent.

    Drawing random numbers in the backward of a custom function makes a pass differ, as it does
    between two runs in one process.
    """

    def __init__(
        self,
        *,
        runs_user_code: RunsUserCode | None = None,
        isolate: Callable[[], object] | None = None,
        clock: Callable[[], float] | None = None,
        exact: bool = False,
        tolerance: Tolerance | None = None,
        fork_always: bool = False,
        max_forks: int = MAX_FORKS,
        rehearse: Callable[[], AbstractContextManager[None]] | None = None,
    ) -> None:
        self.fork_always = fork_always
        self._runs_user_code = runs_user_code
        self._rehearse = rehearse
        self.isolate = isolate
        self.clock = clock
        #: whether a leaf belongs to code that can be rehearsed
        self.owned: Callable[[Tensor], bool] = lambda leaf: True
        #: told the context and the workers' maps, which are live, when a pass has returned
        self.on_pass: OnPass | None = None
        self._exact = exact
        self._tolerance = tolerance
        self._forks_left = max_forks
        self._max_forks = max_forks
        self._contexts: dict[int, _Context] = {}
        self._passes = 0
        self._compared = 0
        self._failed = 0
        self._max_deviation = 0.0
        self._not_comparable: list[str] = []
        self._mismatches: list[str] = []
        self._mismatch_count = 0

    def summary(self) -> GradientSummary:
        """What was found so far."""
        mismatches = list(self._mismatches)
        if self._mismatch_count > len(mismatches):
            mismatches.append(f"… and {self._mismatch_count - len(mismatches)} more")
        return GradientSummary(
            passes=self._passes,
            compared=self._compared,
            failed=self._failed,
            max_deviation=self._max_deviation,
            not_comparable=list(self._not_comparable),
            mismatches=mismatches,
        )

    # -- Observer: the forward pass -------------------------------------------------------

    def sending(self, worker: int, context: int, message: int, tensors: Sequence[Tensor]) -> None:
        sent = self._context(context).anchors.setdefault(worker, {})
        sent[message] = [anchor(tensor) for tensor in tensors]

    def anchors(self, worker: int, context: int, message: int) -> Sequence[Tensor]:
        known = self._context(context)
        for sent in known.anchors.values():
            if message in sent:
                return sent[message]
        known.broken = f"what was sent in autograd message {message} is not known"
        return ()

    def context_released(self, worker: int, context: int) -> None:
        known = self._contexts.get(context)
        if known is None:
            return
        known.maps.pop(worker, None)
        known.anchors.pop(worker, None)
        known.released.add(worker)
        for running in known.passes.values():
            running.not_comparable = "its context was released while it ran"
        self._forget(context, known)

    # -- Observer: the backward pass ------------------------------------------------------

    def gradients(self, worker: int, context: int, grads: Mapping[Tensor, Tensor]) -> None:
        known = self._context(context)
        if known.maps.get(worker) is not grads:  # also that of a new process
            known.maps[worker] = grads
            known.released.discard(worker)
            for running in known.passes.values():
                running.before[worker] = _snapshot(grads)

    def backward_started(
        self,
        worker: int,
        context: int,
        pass_id: int,
        roots: Sequence[Tensor],
        retain_graph: bool,
    ) -> None:
        known = self._context(context)
        running = _Pass(worker, {w: _snapshot(grads) for w, grads in known.maps.items()})
        known.passes[pass_id] = running
        known.called[pass_id] = worker, len(known.called) + 1
        if known.broken is not None:
            running.not_comparable = known.broken
        else:
            self._compute(running, roots)

    def accumulating(
        self, worker: int, context: int, pass_id: int, leaf: Tensor, grad: Tensor
    ) -> None:
        known = self._contexts.get(context)
        if known is None or worker in known.released:
            self._too_late(worker, context, leaf, "the context was released there")
            return
        why = _too_late_for(known, worker, pass_id)
        if why is not None:
            self._too_late(worker, context, leaf, why)
        for other, running in known.passes.items():
            if other != pass_id:
                before = running.before.setdefault(worker, {})
                had = before.get(leaf)
                before[leaf] = grad.detach().clone() if had is None else add(had, grad)

    def propagating(self, worker: int, context: int, pass_id: int) -> None:
        known = self._contexts.get(context)
        if known is None or worker in known.released:
            why: str | None = "the context was released there"
        else:
            why = _too_late_for(known, worker, pass_id)
        if why is None:
            return
        where = f"worker {worker}, context {context}{self._when()}"
        self._mismatch(f"{where}: gradients were sent although {why}")

    def pass_over(self, worker: int, context: int, pass_id: int) -> None:
        known = self._contexts.get(context)
        if known is not None:
            known.over.add((worker, pass_id))

    def backward_ended(
        self, worker: int, context: int, pass_id: int, error: BaseException | None
    ) -> None:
        known = self._contexts.get(context)
        running = None if known is None else known.passes.pop(pass_id, None)
        if known is None or running is None:
            return
        where = f"worker {worker}, context {context}{self._when()}"
        if error is not None:
            self._failed += 1
            self._forget(context, known)
            return
        self._passes += 1
        if self.on_pass is not None:
            self.on_pass(context, known.maps)
        if running.left_out:
            self._passes -= 1
        elif running.not_comparable is not None:
            self._not_comparable.append(f"{where}: {running.not_comparable}")
        elif running.error is not None:
            self._compared += 1
            self._mismatch(
                f"{where}: the pass succeeded, but in one process it raises: {running.error}"
            )
        else:
            self._compared += 1
            self._compare(context, known, running)
        self._forget(context, known)

    # -- inside ---------------------------------------------------------------------------

    def _context(self, context: int) -> _Context:
        known = self._contexts.get(context)
        if known is None:
            known = self._contexts[context] = _Context()
        return known

    def _forget(self, context: int, known: _Context) -> None:
        if not known.maps and not known.anchors and not known.passes:
            del self._contexts[context]

    def _compute(self, running: _Pass, roots: Sequence[Tensor]) -> None:
        graph = walk(roots, runs_user_code=self._runs_user_code)
        self.walking = True
        try:
            if self.fork_always or (graph.user_code is not None and self._rehearse is None):
                gradients = self._compute_in_child(graph, roots)
            elif graph.user_code is not None:
                if not any(map(self.owned, graph.leaves)):
                    running.left_out = True
                    return
                gradients = self._compute_rehearsed(graph, roots)
            else:
                with _unseen():
                    gradients = node_gradients(roots, graph.leaf_nodes)
        except (CannotForkError, FailedInChildError, RehearsalError) as error:
            running.not_comparable = f"{graph.user_code or 'asked for'}, and {error}"
        except RuntimeError as error:
            running.error = str(error)
        else:
            for leaf, gradient in zip(graph.leaves, gradients, strict=True):
                if gradient is not None:
                    running.expected[leaf] = gradient
        finally:
            self.walking = False

    def _compute_rehearsed(
        self, graph: JointGraph, roots: Sequence[Tensor]
    ) -> Sequence[Tensor | None]:
        assert self._rehearse is not None
        try:
            with self._rehearse(), _unseen():
                return rehearsed_gradients(roots, graph.leaves)
        except Exception as error:
            raise RehearsalError(f"{type(error).__name__}: {error}") from None

    def _compute_in_child(
        self, graph: JointGraph, roots: Sequence[Tensor]
    ) -> Sequence[Tensor | None]:
        if not self._forks_left:
            raise CannotForkError(f"more than {self._max_forks} passes run code of the user's")
        self._forks_left -= 1
        gradients: Sequence[Tensor | None] = call_in_child(
            lambda: accumulated_gradients(roots, graph.leaves), isolate=self.isolate
        )
        return gradients

    def _compare(self, context: int, known: _Context, running: _Pass) -> None:
        missing = dict(running.expected)
        for worker, grads in known.maps.items():
            before = running.before.get(worker, {})
            where = f"worker {worker}, context {context}"
            for leaf, got in grads.items():
                expected = before.get(leaf)
                gradient = running.expected.get(leaf)
                if gradient is not None:
                    if missing.pop(leaf, None) is None:
                        self._mismatch(
                            f"{where}, {_describe(leaf)}{self._when()}: another worker has a "
                            "gradient of this leaf too"
                        )
                    expected = gradient if expected is None else add(expected, gradient)
                if expected is None:
                    self._mismatch(
                        f"{where}, {_describe(leaf)}{self._when()}: there is a gradient, "
                        "expected none"
                    )
                    continue
                found = compare(got, expected, exact=self._exact, tolerance=self._tolerance)
                if math.isfinite(found.deviation):
                    self._max_deviation = max(self._max_deviation, found.deviation)
                if found.complaint is not None:
                    self._mismatch(f"{where}, {_describe(leaf)}{self._when()}: {found.complaint}")
            for leaf in before:
                if leaf not in grads:
                    self._mismatch(
                        f"{where}, {_describe(leaf)}{self._when()}: the gradient of an "
                        "earlier pass is gone"
                    )
        for leaf in missing:
            self._mismatch(
                f"pass of worker {running.worker}, context {context}, "
                f"{_describe(leaf)}{self._when()}: no worker has a gradient, expected one"
            )

    def _too_late(self, worker: int, context: int, leaf: Tensor, why: str) -> None:
        self._mismatch(
            f"worker {worker}, context {context}, {_describe(leaf)}{self._when()}: a gradient was "
            f"added although {why}"
        )

    def _mismatch(self, text: str) -> None:
        self._mismatch_count += 1
        if len(self._mismatches) < MAX_DESCRIBED:
            self._mismatches.append(text)

    def _when(self) -> str:
        return "" if self.clock is None else f" at {self.clock():.6f} s"


@contextmanager
def _unseen() -> Iterator[None]:
    """Leave torch's random state as it is, and let no autocast of the caller's change a dtype."""
    state = torch.get_rng_state()
    try:
        if torch.is_autocast_enabled("cpu"):
            with torch.autocast("cpu", enabled=False):
                yield
        else:
            yield
    finally:
        torch.set_rng_state(state)


def _too_late_for(known: _Context, worker: int, pass_id: int) -> str | None:
    """Why a pass may not add or send anything on a worker any more, if so: its part there is over, or
    that of a pass which the same worker has called later has begun."""
    if (worker, pass_id) in known.over:
        return "its part of the pass was over"
    caller, number = known.called.get(pass_id, (-1, 0))
    last = known.latest.get((worker, caller), 0)
    if number < last:
        return "a later pass had begun there"
    known.latest[worker, caller] = number
    return None


def _snapshot(grads: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
    return {leaf: grad.detach().clone() for leaf, grad in grads.items()}


def _describe(leaf: Tensor) -> str:
    return f"leaf {list(leaf.shape)} {str(leaf.dtype).removeprefix('torch.')}"
