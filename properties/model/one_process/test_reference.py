"""The single-process oracle, held against passes that are right and passes that are wrong.

Here the workers' part is played by hand: a message is a ``send`` and what it gives, a pass is
whatever the test puts into the gradient maps.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from squall.model.one_process.forked import CannotForkError, FailedInChildError, call_in_child
from squall.model.one_process.joint_graph import RECV_NAME, walk
from squall.model.one_process.reference import JointReference, leaves_of, reference_gradients
from squall.model.program.compare import add, compare

CONTEXT = 7


def _receive_forward(ctx: Any, *anchors: Tensor) -> tuple[Tensor, ...]:
    ctx.set_materialize_grads(False)
    return tuple(ctx_tensors.pop().clone() for _ in anchors)


def _receive_backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
    return grads


# The node of a received message is recognised by its name, as torch gives it.
Recv: Any = type(
    RECV_NAME.removesuffix("Backward"),
    (torch.autograd.Function,),
    {"forward": staticmethod(_receive_forward), "backward": staticmethod(_receive_backward)},
)
ctx_tensors: list[Tensor] = []


class Wires:
    """Two workers and the reference that looks on."""

    def __init__(self, **options: Any) -> None:
        self.reference = JointReference(**options)
        self.maps: list[dict[Tensor, Tensor]] = [{}, {}]
        self.messages = 0
        self.passes = 0

    def send(self, worker: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        message = self.messages = self.messages + 1
        self.reference.sending(worker, CONTEXT, message, tensors)
        ctx_tensors[:] = [t.detach().clone() for t in reversed(tensors)]
        received: tuple[Tensor, ...] = Recv.apply(
            *self.reference.anchors(1 - worker, CONTEXT, message)
        )
        return received

    def backward(
        self, roots: list[Tensor], run: Callable[[], object], error: BaseException | None = None
    ) -> None:
        self.passes += 1
        pass_id = self.passes
        self.reference.gradients(0, CONTEXT, self.maps[0])
        self.reference.backward_started(0, CONTEXT, pass_id, roots, False)
        self.reference.gradients(1, CONTEXT, self.maps[1])
        run()
        self.reference.pass_over(0, CONTEXT, pass_id)
        self.reference.backward_ended(0, CONTEXT, pass_id, error)

    def accumulate(self, worker: int, leaf: Tensor, grad: Tensor) -> None:
        grads = self.maps[worker]
        grads[leaf] = add(grads[leaf], grad) if leaf in grads else grad

    def release(self) -> None:
        for worker in (0, 1):
            self.reference.context_released(worker, CONTEXT)


def two_weights(wires: Wires) -> tuple[Tensor, Tensor, Tensor]:
    """``(a * x)`` on worker 0, times ``b`` on worker 1, summed on worker 0."""
    a = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([3.0, 5.0], dtype=torch.float64, requires_grad=True)
    (there,) = wires.send(0, a * 2)
    (back,) = wires.send(1, there * b)
    return a, b, back.sum()


def test_a_right_pass_is_equal_to_the_last_bit() -> None:
    wires = Wires(exact=True)
    a, b, loss = two_weights(wires)

    def run() -> None:
        wires.accumulate(0, a, torch.tensor([6.0, 10.0], dtype=torch.float64))
        wires.accumulate(1, b, torch.tensor([2.0, 4.0], dtype=torch.float64))

    wires.backward([loss], run)
    wires.backward([loss], run)  # the graph is still there, and gradients add up
    summary = wires.reference.summary()
    assert summary.equal
    assert summary.equal is True
    assert (summary.passes, summary.compared, summary.max_deviation) == (2, 2, 0.0)


def test_leaves_are_found_across_workers() -> None:
    wires = Wires()
    a, b, loss = two_weights(wires)
    assert [id(leaf) for leaf in leaves_of([loss])] == [id(b), id(a)]
    gradient_a, gradient_b, nothing = reference_gradients([loss, loss], [a, b, leaf := ones()])
    assert gradient_a is not None
    assert gradient_a.tolist() == [12.0, 20.0]
    assert gradient_b is not None
    assert gradient_b.tolist() == [4.0, 8.0]
    assert nothing is None
    assert leaf.grad is None
    assert a.grad is None


def ones() -> Tensor:
    return torch.ones(2, dtype=torch.float64, requires_grad=True)


def test_a_wrong_gradient_is_named() -> None:
    wires = Wires(clock=lambda: 1.25)
    a, b, loss = two_weights(wires)

    def run() -> None:
        wires.accumulate(0, a, torch.tensor([6.0, 11.0], dtype=torch.float64))
        wires.accumulate(1, b, torch.tensor([2.0, 4.0], dtype=torch.float64))

    wires.backward([loss], run)
    summary = wires.reference.summary()
    assert not summary.equal
    assert summary.mismatches == [
        "worker 0, context 7, leaf [2] float64 at 1.250000 s: element [1] is 11.0, "
        "expected 10.0 (1 of 2 elements differ)"
    ]
    assert summary.max_deviation == pytest.approx(0.1)


def test_missing_extra_doubled_and_lost_gradients_are_all_wrong() -> None:
    wires = Wires()
    a, b, loss = two_weights(wires)
    stranger = ones()
    wires.backward(
        [loss],
        lambda: (
            wires.accumulate(0, a, torch.tensor([6.0, 10.0], dtype=torch.float64)),
            wires.accumulate(1, a, torch.tensor([6.0, 10.0], dtype=torch.float64)),
            wires.accumulate(1, stranger, torch.ones(2, dtype=torch.float64)),
        ),
    )
    first, second, third = wires.reference.summary().mismatches
    assert "another worker has a gradient of this leaf too" in first
    assert "there is a gradient, expected none" in second
    assert "no worker has a gradient, expected one" in third

    wires = Wires()
    a, b, loss = two_weights(wires)
    wires.accumulate(0, stranger, torch.ones(2, dtype=torch.float64))

    def lose() -> None:
        del wires.maps[0][stranger]
        wires.accumulate(0, a, torch.tensor([6.0, 10.0], dtype=torch.float64))
        wires.accumulate(1, b, torch.tensor([2.0, 4.0], dtype=torch.float64))

    wires.backward([loss], lose)
    (lost,) = wires.reference.summary().mismatches
    assert "the gradient of an earlier pass is gone" in lost


def test_what_one_process_refuses_the_cluster_must_refuse_too() -> None:
    wires = Wires()
    a = ones()
    loss = (a * a).sum()
    loss.backward()  # frees what the graph had saved
    wires.backward([loss], lambda: None)
    (text,) = wires.reference.summary().mismatches
    assert "the pass succeeded, but in one process it raises: Trying to backward" in text

    wires = Wires()
    wires.backward([loss], lambda: None, RuntimeError("Trying to backward through the graph"))
    summary = wires.reference.summary()
    assert (summary.equal, summary.passes, summary.failed) == (None, 0, 1)
    a.grad = None
    wires.backward([(a * a).sum()], lambda: None)
    (text,) = wires.reference.summary().mismatches  # it is compared like any other
    assert "no worker has a gradient, expected one" in text


def test_what_a_failed_pass_adds_is_not_taken_for_that_of_the_next() -> None:
    wires = Wires(exact=True)
    a, b, loss = two_weights(wires)
    stray = torch.tensor([100.0, 100.0], dtype=torch.float64)
    wires.backward([loss], lambda: wires.accumulate(0, a, stray), RuntimeError("timed out"))
    first = wires.passes

    def run() -> None:
        # Worker 1 has not heard of the failure.
        wires.reference.accumulating(1, CONTEXT, first, b, stray)
        wires.accumulate(1, b, stray)
        wires.accumulate(0, a, torch.tensor([6.0, 10.0], dtype=torch.float64))
        wires.accumulate(1, b, torch.tensor([2.0, 4.0], dtype=torch.float64))

    wires.backward([loss], run)
    summary = wires.reference.summary()
    assert summary.equal
    assert (summary.passes, summary.compared, summary.failed) == (1, 1, 1)

    def run_wrongly() -> None:
        run()
        wires.accumulate(1, b, stray)  # in nobody's name

    wires.backward([loss], run_wrongly)
    (text,) = wires.reference.summary().mismatches
    assert "element [0] is 304.0, expected 204.0" in text


def test_a_part_that_is_over_and_a_context_that_was_released_get_nothing_more() -> None:
    wires = Wires()
    a, _, loss = two_weights(wires)
    wires.backward([loss], lambda: None, RuntimeError("timed out"))
    wires.reference.accumulating(0, CONTEXT, wires.passes, a, a)
    wires.reference.context_released(0, CONTEXT)
    wires.reference.accumulating(0, CONTEXT, wires.passes, a, a)
    over, released = wires.reference.summary().mismatches
    assert "a gradient was added although its part of the pass was over" in over
    assert "a gradient was added although the context was released there" in released


def test_an_earlier_pass_that_begins_after_a_later_one_is_too_late() -> None:
    """Its gradients were long on the way, and have found a worker that had not heard of it."""
    wires = Wires()
    a = ones()

    def run() -> None:
        wires.accumulate(0, a, torch.full((2,), 2.0).double())
        wires.reference.propagating(1, CONTEXT, wires.passes)

    wires.backward([(a * 2).sum()], lambda: None, error=RuntimeError("it failed elsewhere"))
    wires.backward([(a * 2).sum()], run)
    assert wires.reference.summary().mismatches == []
    wires.reference.accumulating(1, CONTEXT, wires.passes - 1, a, a)
    (late,) = wires.reference.summary().mismatches
    assert "a gradient was added although a later pass had begun there" in late


def test_the_graph_at_the_time_of_sending_counts() -> None:
    wires = Wires()
    a = ones()
    sent = a * 2
    (received,) = wires.send(0, sent)
    sent.mul_(10)
    wires.backward([received.sum()], lambda: wires.accumulate(0, a, torch.full((2,), 2.0).double()))
    assert wires.reference.summary().equal


def test_a_received_tensor_that_is_not_used_has_a_gradient_of_zeros() -> None:
    wires = Wires(exact=True)
    a, b = ones(), ones()
    _, used = wires.send(0, a * 2, b * 2)
    wires.backward(
        [used.sum()],
        lambda: (
            wires.accumulate(0, a, torch.zeros(2, dtype=torch.float64)),
            wires.accumulate(0, b, torch.full((2,), 2.0, dtype=torch.float64)),
        ),
    )
    assert wires.reference.summary().mismatches == []


class Noisy(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        Noisy.calls += 1
        print("in the backward of Noisy")
        return grad * 2


def test_user_code_in_the_graph_runs_once_all_the_same(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = (tmp_path / "log").open("w")
    a = ones()
    b = nn.Parameter(torch.ones(2, dtype=torch.float64))

    def hook(grad: Tensor) -> Tensor:
        log.write("hook\n")
        log.flush()
        return grad * 100

    b.register_hook(hook)
    b.register_post_accumulate_grad_hook(lambda p: log.write("never\n"))
    wires = Wires()
    loss = Noisy.apply(a * b).sum()
    before = torch.get_rng_state()

    def run() -> None:
        wires.accumulate(0, a, torch.full((2,), 2.0, dtype=torch.float64))
        wires.accumulate(1, b, torch.full((2,), 200.0, dtype=torch.float64))

    wires.backward([loss], run)
    log.close()
    summary = wires.reference.summary()
    assert (summary.equal, summary.compared) == (True, 1)
    assert Noisy.calls == 0
    assert (tmp_path / "log").read_text(encoding="utf-8") == ""
    assert capfd.readouterr().out == ""
    assert b.grad is None
    assert torch.equal(before, torch.get_rng_state())


def test_hooks_of_nodes_are_user_code_where_somebody_can_see_them() -> None:
    a = ones()
    middle = a * 2
    middle.register_hook(lambda grad: grad * 3)
    loss = middle.sum()
    assert walk([loss]).user_code is None
    hooked = walk([loss], runs_user_code=lambda node: node is middle.grad_fn)
    assert hooked.user_code == "a hook on MulBackward0"


def test_a_pass_whose_user_code_blocks_is_not_compared() -> None:
    def refuse() -> None:
        raise RuntimeError("nobody runs the simulation")

    wires = Wires(isolate=refuse)
    wires.backward([Noisy.apply(ones()).sum()], lambda: None)
    summary = wires.reference.summary()
    assert summary.equal is None
    (reason,) = summary.not_comparable
    assert "a custom function, NoisyBackward, and RuntimeError: nobody runs" in reason

    wires = Wires(max_forks=0)
    wires.backward([Noisy.apply(ones()).sum()], lambda: None)
    assert "more than 0 passes" in wires.reference.summary().not_comparable[0]


def test_only_code_of_known_leaves_is_rehearsed() -> None:
    """Other graphs with code in them are left out, and no copy of the process is made for them."""
    a, stranger = ones(), ones()
    wires = Wires(rehearse=contextlib.nullcontext, max_forks=0)
    wires.reference.owned = lambda leaf: leaf is a
    before = Noisy.calls

    def of(leaf: Tensor, gradient: float) -> None:
        wires.accumulate(0, leaf, torch.full((2,), gradient, dtype=torch.float64))

    wires.backward([Noisy.apply(stranger).sum()], lambda: of(stranger, 1.0))
    assert Noisy.calls == before
    wires.backward([Noisy.apply(a).sum()], lambda: of(a, 2.0))
    assert Noisy.calls == before + 1
    summary = wires.reference.summary()
    assert (summary.passes, summary.compared, summary.mismatches) == (1, 1, [])
    wires.backward([Noisy.apply(a).sum()], lambda: of(a, 3.0))
    assert not wires.reference.summary().equal


def test_a_message_nobody_saw_leave_makes_the_context_incomparable() -> None:
    wires = Wires()
    assert wires.reference.anchors(1, CONTEXT, 99) == ()
    wires.backward([(ones() * 2).sum()], lambda: None)
    assert "autograd message 99 is not known" in wires.reference.summary().not_comparable[0]


def test_nothing_is_kept_of_a_released_context() -> None:
    wires = Wires()
    _, _, loss = two_weights(wires)
    wires.backward([loss], lambda: None)
    wires.release()
    assert wires.reference._contexts == {}


def test_a_fork_that_hangs_or_dies_is_given_up() -> None:
    with pytest.raises(CannotForkError, match=r"no answer within 0\.2 s"):
        call_in_child(lambda: time.sleep(60), timeout_s=0.2)
    with pytest.raises(CannotForkError, match="died without an answer"):
        call_in_child(lambda: os._exit(3))
    with pytest.raises(FailedInChildError, match="ValueError: no"):
        call_in_child(_raise)
    sparse = torch.sparse_coo_tensor([[0, 2]], torch.ones(2), (4,), check_invariants=True)
    back = call_in_child(lambda: [sparse, None, torch.ones(2, dtype=torch.bfloat16)])
    assert back[0].is_sparse
    assert back[1] is None
    assert back[2].dtype == torch.bfloat16


def _raise() -> None:
    raise ValueError("no")


nan, inf = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("got", "expected", "complaint"),
    [
        (torch.tensor([nan, inf, 1.0]), torch.tensor([nan, inf, 1.0]), None),
        (torch.tensor([1.0, nan]), torch.tensor([1.0, 2.0]), "element [1] is nan, expected 2.0"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, nan]), "element [1] is 2.0, expected nan"),
        (torch.tensor([inf]), torch.tensor([-inf]), "element [0] is inf, expected -inf"),
        (torch.tensor([1e6, 1.0]), torch.tensor([1e6, 1.1]), None),  # of the largest element
        (torch.tensor(1.0), torch.tensor(1.1), "its value is 1.0, expected 1.1"),
        (torch.tensor(1.0).double(), torch.tensor(1.0), "has dtype torch.float64"),
        (torch.ones(2), torch.ones(2, 1), "has shape [2], expected [2, 1]"),
        (torch.ones(0), torch.ones(0), None),
        (torch.tensor([1 + 1j]), torch.tensor([1 + 1j]).conj(), "element [0, 1] is 1.0"),
        (torch.ones(2).bfloat16(), torch.ones(2).bfloat16() * 1.01, None),
        (torch.eye(2).to_sparse(), torch.eye(2), None),
        (torch.eye(2), torch.eye(2).to_sparse() * 2, "element [0, 0] is 1.0, expected 2.0"),
    ],
)
def test_when_two_gradients_are_the_same(
    got: Tensor, expected: Tensor, complaint: str | None
) -> None:
    found = compare(got, expected).complaint
    if complaint is None:
        assert found is None
    else:
        assert found is not None
        assert complaint in found


def test_sparse_gradients_are_compared_where_either_has_rows() -> None:
    def rows(indices: list[int], values: list[float]) -> Tensor:
        return torch.sparse_coo_tensor(
            [indices], torch.tensor(values)[:, None], (10, 1), check_invariants=True
        )

    assert compare(rows([1, 1], [1, 2]), rows([1], [3])).complaint is None
    assert compare(rows([1, 4], [3, 0]), rows([1], [3])).complaint is None
    assert "is 5.0, expected 0.0" in str(compare(rows([1, 4], [3, 5]), rows([1], [3])).complaint)
    assert "is 0.0, expected 5.0" in str(compare(rows([1], [3]), rows([1, 4], [3, 5])).complaint)


def test_exact_means_exact() -> None:
    nearly = torch.tensor([1.0, 2.0 + 1e-12], dtype=torch.float64)
    expected = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert compare(nearly, expected).complaint is None
    assert 0 < compare(nearly, expected).deviation < 1e-11
    assert compare(nearly, expected, exact=True).complaint is not None
