"""The user code of programs is tried out in this process, and leaves no trace in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import Tensor

from squall.model.one_process.reference import JointReference
from squall.model.program.hooks import (
    add_hook,
    add_leaf_hook,
    add_leaf_sleep,
    rehearsing,
    retained,
    sleep_in_result,
)
from squall.model.program.operations import PlantedError, raise_in_backward
from squall.model.program.program import LeafSleep, Sleep

Rehearse = Callable[[], AbstractContextManager[None]]


def pass_of(roots: list[Tensor], gradients: dict[Tensor, Tensor], rehearse: Rehearse | None) -> Any:
    """What the reference says of a pass in which a worker has come to ``gradients``."""
    reference = JointReference(rehearse=rehearse, exact=True, runs_user_code=lambda node: True)
    reference.gradients(0, 7, got := dict[Tensor, Tensor]())
    reference.backward_started(0, 7, 1, roots, False)
    got.update(gradients)
    reference.pass_over(0, 7, 1)
    reference.backward_ended(0, 7, 1, None)
    return reference.summary()


@pytest.fixture
def no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise AssertionError("a copy of the process was made")

    monkeypatch.setattr(os, "fork", fork)


@pytest.mark.usefixtures("no_copies")
def test_a_rehearsal_comes_to_what_a_pass_does_and_leaves_nothing() -> None:
    waited: list[float] = []
    after: list[Tensor] = []
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    leaf.grad = had = torch.tensor([5.0, 5.0])
    kept = [
        add_leaf_hook(leaf, "double"),
        add_leaf_hook(leaf, "accumulate_pre"),
        add_leaf_hook(leaf, "accumulate_post"),
        add_leaf_sleep(leaf, LeafSleep(at="tensor", seconds=(1.0, 2.0)), waited.append),
    ]
    leaf.register_post_accumulate_grad_hook(after.append)
    out = leaf * 3
    add_hook(out, "increment")
    add_hook(out, "retain_grad")
    through = sleep_in_result(out, Sleep(at="backward", seconds=(3.0,)), waited.append)
    root = through.sum()

    # One from the sum, one more from "increment", times three, and doubled twice.
    right = {leaf: torch.tensor([24.0, 24.0])}
    assert pass_of([root], right, rehearsing).mismatches == []
    assert pass_of([root], {leaf: torch.tensor([24.0, 25.0])}, rehearsing).mismatches
    assert (waited, after, leaf.__dict__["seen"]) == ([], [], [])
    assert leaf.grad is had
    assert torch.equal(had, torch.tensor([5.0, 5.0]))
    assert out.grad is None

    # A pass that counts waits as long, and is seen as often, as if there had been no rehearsal.
    root.backward()  # type: ignore[no-untyped-call]
    assert (waited, after, leaf.__dict__["seen"]) == ([3.0, 1.0], [leaf], [48.0])
    assert retained() == 4.0
    assert len(kept) == 4


@pytest.mark.usefixtures("no_copies")
def test_a_pass_whose_rehearsal_raises_is_not_compared() -> None:
    leaf = torch.ones(2, requires_grad=True)
    summary = pass_of([raise_in_backward(leaf, "planted here").sum()], {}, rehearsing)
    assert summary.equal is None
    (reason,) = summary.not_comparable
    assert reason.endswith(f", and {PlantedError.__name__}: planted here")
    assert leaf.grad is None


def test_what_cannot_be_rehearsed_runs_in_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    fork = os.fork

    def counted() -> int:
        child = fork()
        made.append(child)
        return child

    monkeypatch.setattr(os, "fork", counted)
    leaf = torch.ones(2, requires_grad=True)
    summary = pass_of([(leaf * 3).sum()], {leaf: torch.full((2,), 3.0)}, None)
    assert (summary.equal, summary.compared, len(made)) == (True, 1, 1)
