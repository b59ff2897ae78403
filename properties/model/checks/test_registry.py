"""The properties: good runs violate none, and each is violated by the bug planted for it.

Every planted fault changes one function of ``real/``; a campaign over few seeds must find it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from squall.model.checks.registry import PROPERTIES, check, named_property
from squall.model.events.predicted_hangs import explain
from squall.model.events.run import ALL_ENGINES, Run, Violation
from squall.real.autograd import context as context_module
from squall.real.autograd.container import DistAutogradContainer
from squall.real.autograd.context import DistAutogradContext
from squall.real.autograd.dist_engine import DistEngine
from squall.real.autograd.engine import AccumulateGrad, Engine
from squall.real.autograd.functions import SendRpcBackward
from squall.real.autograd.messages import PropagateGradientsResp
from squall.real.future import Future
from squall.real.rpc.call_table import CallTable
from squall.real.rpc.errors import RpcError
from squall.real.rpc.request_callback import RequestCallback
from squall.real.rpc.rref_users import UserTables
from squall.real.tracing import TABLES_COUNTED
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import draw
from squall.sim.search.judge import judge

Patch = Callable[[pytest.MonkeyPatch], None]


def test_properties_each_say_what_must_hold() -> None:
    for engine in ALL_ENGINES:
        there = [property.name for property in PROPERTIES if engine in property.engines]
        assert len(set(there)) == len(there)
    names = [property.name for property in PROPERTIES]
    assert set(names) >= {
        "contexts",
        "dependencies",
        "determinism",
        "execution",
        "futures",
        "gradients",
        "joint_graph",
        "progress",
        "protocol",
        "retry",
        "rrefs",
    }
    assert all(len(property.description) > 100 for property in PROPERTIES)
    with pytest.raises(KeyError, match="there is no property 'speed', expected one of dep"):
        named_property("speed")


def test_good_runs_violate_nothing() -> None:
    with campaign_settings():
        for seed in range(100):
            assert judge(seed).violations == ()


def test_a_hang_that_must_be_is_predicted_and_explained() -> None:
    with campaign_settings():
        for seed in range(400):
            run = play(draw(seed))
            if run.hangs:
                assert check(run) == []
                assert run.waits or run.ended_s >= 60  # for ever, or until the RPC is given up
                lines = explain(run)
                assert lines
                assert "waits for gradients of what it sent to worker" in lines[0]
                return
    pytest.fail("no program of 400 has a send function that is never fed")


# -- planted faults -------------------------------------------------------------------------------


def double_what_is_accumulated(patch: pytest.MonkeyPatch) -> None:
    original = context_module.accumulate_grad

    def accumulate(grads: Any, variable: Any, new: Any) -> None:
        original(grads, variable, new)
        grads[variable] = grads[variable] * 2

    patch.setattr(context_module, "accumulate_grad", accumulate)


def count_an_edge_too_many(patch: pytest.MonkeyPatch) -> None:
    original = DistEngine.compute_dependencies

    def compute(*args: Any) -> Any:
        graph_task = original(*args)
        for node in graph_task.dependencies:
            graph_task.dependencies[node] += 1
        return graph_task

    patch.setattr(DistEngine, "compute_dependencies", compute)


def run_leaves_twice(patch: pytest.MonkeyPatch) -> None:
    original = Engine.evaluate_function

    def evaluate(self: Any, graph_task: Any, func: Any, inputs: Any, queue: Any) -> None:
        original(self, graph_task, func, inputs, queue)
        if type(func) is AccumulateGrad:
            original(self, graph_task, func, inputs, queue)

    patch.setattr(Engine, "evaluate_function", evaluate)


def mix_up_the_tensors_of_a_message(patch: pytest.MonkeyPatch) -> None:
    original = SendRpcBackward.__init__

    def init(self: SendRpcBackward, tensors: Any, to: int) -> None:
        original(self, tensors, to)
        self.next_functions = self.next_functions[::-1]

    patch.setattr(SendRpcBackward, "__init__", init)


def run_functions_before_their_arguments_are_confirmed(patch: pytest.MonkeyPatch) -> None:
    original = UserTables.wait_for_pending_rrefs

    def wait(self: UserTables) -> None:
        original(self)

    patch.setattr(UserTables, "wait_for_pending_rrefs", wait)


def tell_nobody_of_a_release(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DistAutogradContainer, "_send_release_context_rpc", lambda *_: None)


def hide_what_went_wrong(patch: pytest.MonkeyPatch) -> None:
    original = CallTable._finish

    def finish(self: CallTable, call: Any, message: Any, error: Any) -> None:
        original(self, call, message, error and RpcError("something went wrong"))

    patch.setattr(CallTable, "_finish", finish)


def never_answer_a_gradient(patch: pytest.MonkeyPatch) -> None:
    def process(self: RequestCallback, request: Any) -> Future[Any]:
        return Future(runtime=self.worker.runtime, what="nothing")

    patch.setattr(RequestCallback, "process_backward_autograd_req", process)


def release_in_any_order(patch: pytest.MonkeyPatch) -> None:
    original = DistAutogradContext.retire
    turns = itertools.count()

    def known(self: DistAutogradContext) -> list[int]:
        turn = next(turns)
        return original(self)[:: 1 if turn % 3 else -1]

    patch.setattr(DistAutogradContext, "retire", known)


def keep_gradients_of_a_failed_pass(patch: pytest.MonkeyPatch) -> None:
    cleanup, new_context = DistEngine.cleanup_backward_pass, DistAutogradContainer.new_context

    def keep(self: Any, context: Any, graph_task: Any, error: Any = None) -> None:
        if error is not None:
            self._worker.locals["kept"] = dict(context._grads)
        cleanup(self, context, graph_task, error)

    def start(self: Any) -> Any:
        context = new_context(self)
        context._grads.update(self._worker.locals.pop("kept", {}))
        return context

    patch.setattr(DistEngine, "cleanup_backward_pass", keep)
    patch.setattr(DistAutogradContainer, "new_context", start)


def answer_gradients_at_once(patch: pytest.MonkeyPatch) -> None:
    original = RequestCallback.process_backward_autograd_req

    def process(self: RequestCallback, request: Any) -> Future[Any]:
        original(self, request)
        return self._completed(PropagateGradientsResp().to_message())

    patch.setattr(RequestCallback, "process_backward_autograd_req", process)


FAULTS: dict[str, Patch] = {
    "gradients": double_what_is_accumulated,
    "dependencies": count_an_edge_too_many,
    "execution": run_leaves_twice,
    "joint_graph": mix_up_the_tensors_of_a_message,
    "rrefs": run_functions_before_their_arguments_are_confirmed,
    "contexts": tell_nobody_of_a_release,
    "futures": hide_what_went_wrong,
    "protocol": answer_gradients_at_once,
    "progress": never_answer_a_gradient,
    "determinism": release_in_any_order,
    "retry": keep_gradients_of_a_failed_pass,
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_by_its_property(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    FAULTS[name](monkeypatch)
    with campaign_settings():
        for seed in range(5000 if name == "retry" else 1000):
            steps = draw(seed).program.steps
            if name == "retry" and not any(step.retry for _, _, step in steps):
                continue
            verdict = judge(seed)
            if any(violation.property == name for violation in verdict.violations):
                found = next(v for v in verdict.violations if v.property == name)
                assert str(found).startswith(f"{name}: {found.what}")
                assert "expected" in str(found) and "seen" in str(found)
                return
    pytest.fail(f"{name} says nothing in so many scenarios")


# -- what a violation says --------------------------------------------------------------------------


def test_a_violation_says_where_and_when_and_cites_its_events() -> None:
    records = [(0.25, 1, 3, TABLES_COUNTED, (2, 0, 0, 0, 0, 0, 0, 0))]
    (found,) = named_property("rrefs").check(Run(records))
    assert found == Violation(
        "rrefs", "owners in the tables at the end", "0", "2", worker=1, time_s=0.25, events=(0,)
    )
    assert str(found) == (
        "rrefs: owners in the tables at the end on worker 1 at t=0.250000: "
        "expected 0, seen 2 (events #0)"
    )
    assert found.to_json()["events"] == [0]


def test_runs_without_a_program_are_checked_by_their_events() -> None:
    with campaign_settings():
        run = play(draw(3))
    assert check(Run(run.records)) == []
