"""What a worker does with each kind of request, and what it answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

from squall.properties.real.rpc.test_rref import Counter, fail, ident, play, slow
from squall.real import tracing
from squall.real.autograd import api as dist_autograd
from squall.real.autograd.messages import (
    CleanupAutogradContextReq,
    PropagateGradientsReq,
    RRefBackwardReq,
)
from squall.real.future import Future
from squall.real.ids import GlobalUniqueId
from squall.real.rpc import api as rpc
from squall.real.rpc.builtin import make_script_call
from squall.real.rpc.commands import (
    PythonCall,
    RRefChildAccept,
    RRefForkRequest,
    RRefUserDelete,
    RunWithProfilingReq,
    RunWithProfilingResp,
    ScriptResp,
)
from squall.real.rpc.functions import async_execution
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.rpc.overloads import Matches, match_builtin_op
from squall.real.rpc.py_rref import RRef
from squall.real.rpc.requests import _READERS
from squall.real.rpc.serialization import PythonUDF, deserialize, serialize
from squall.real.runtime import current_task
from squall.real.worker import current_worker


def send(message: Message, to: int = 1) -> Message:
    agent = current_worker().agent
    assert agent is not None
    return agent.send(to, message).wait()


def error_of(call: Callable[[], Any]) -> str:
    with pytest.raises(RuntimeError) as caught:
        call()
    return str(caught.value)


def here() -> str:
    return current_worker().name


def current_context() -> int:
    return current_task().autograd_context_id


@async_execution
def no_future() -> int:
    return 3


@async_execution
def later(value: Any) -> Future[Any]:
    return rpc.rpc_async("worker2", ident, args=(value,))


@async_execution
def fails_later() -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(ValueError("late"))
    return future


@async_execution
def fails_elsewhere() -> Future[Any]:
    return rpc.rpc_async("worker2", fail)


def unfit_result() -> Any:
    return lambda: None


def test_every_request_has_a_reader_and_a_handler() -> None:
    requests = [type for type in MessageType if type.is_request]
    assert sorted(_READERS) == sorted(requests)

    def story() -> None:
        callback = current_worker().request_callback
        assert callback is not None
        assert sorted(callback._handlers) == sorted(requests)

    play(story)


def test_what_is_no_request_is_refused() -> None:
    def story() -> str:
        callback = current_worker().request_callback
        assert callback is not None
        reply = callback.process_message(Message(MessageType.RREF_ACK, src=0, dst=0))
        return str(reply.error)

    assert play(story)[0] == "Error on Node 0: Request type 526 not supported."


def test_operators_by_schema() -> None:
    two = torch.full((2,), 2.0)

    def story() -> None:
        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            return rpc.rpc_sync("worker1", function, args=args, kwargs=kwargs)

        assert torch.equal(call(torch.add, torch.ones(2), 1), two)
        assert torch.equal(call(torch.add, torch.ones(2), torch.ones(2)), two)
        assert torch.equal(call(torch.add, torch.ones(2), other=torch.ones(2), alpha=1), two)
        assert torch.equal(call(torch.cat, [torch.ones(2), two]), torch.tensor([1.0, 1, 2, 2]))
        assert call(torch.add, 2, 3) == 5  # TorchScript's own overload, not a tensor
        assert call(torch.add, 2, torch.tensor(3)) == 5
        assert type(call(torch.split, torch.ones(2), 1)) is list
        call, _ = make_script_call(current_worker(), "aten::neg", (two,), {})
        reply = send(call.to_message())
        assert reply.type is MessageType.SCRIPT_RET
        resp = ScriptResp.from_message(reply)
        assert torch.equal(deserialize(current_worker(), resp.payload, resp.tensors), -two)

    play(story)


@pytest.mark.parametrize(
    ("name", "args", "others"),
    [
        ("aten::add", (torch.ones(2), 1), [(torch.ones(2), torch.ones(2)), (2, 3)]),
        ("aten::cumsum", (torch.ones(2), 0), [(torch.ones(2), 2**63 - 1)]),
        ("aten::cumsum", (torch.ones(2), 2**70), [(torch.ones(2), 0), (torch.ones(2), -(2**63))]),
        ("aten::cumsum", (torch.ones(2), torch.ones(2)), [(torch.ones(2), torch.ones(1))]),
        ("aten::cumsum", (torch.ones(2), torch.ones(1)), [(torch.ones(2), torch.ones(2))]),
        ("aten::tensor_split", (torch.ones(4), torch.ones(1)), [(torch.ones(4), torch.ones(2))]),
        ("aten::to", (torch.ones(2), "cpu"), [(torch.ones(2), "nowhere")]),
        ("aten::to", (torch.ones(2), "nowhere"), [(torch.ones(2), "cpu")]),
    ],
)
def test_the_overload_found_does_not_depend_on_what_was_asked_before(
    name: str, args: tuple[Any, ...], others: list[tuple[Any, ...]]
) -> None:
    matches: Matches = {}

    def found(args: tuple[Any, ...], matches: Matches) -> str:
        try:
            return repr(match_builtin_op(name, args, {}, matches))
        except RuntimeError as error:
            return str(error)

    for other in others:
        assert found(other, matches) == found(other, {})
    for _ in range(2):
        assert found(args, matches) == found(args, {})


def test_operators_that_cannot_be_called() -> None:
    def story() -> None:
        text = error_of(lambda: rpc.rpc_sync("worker1", torch.add, args=("x",)))
        start = (
            "Overloaded torch operator invoked from Python failed to match any schema:\naten::add"
        )
        assert text.startswith(start)
        assert "Declaration: aten::add.str(str a, str b) -> str" in text
        text = error_of(lambda: rpc.rpc_sync("worker1", torch.relu, args=("x",)))
        assert text == "Overloaded torch operator invoked from Python failed to match any schema:\n"
        text = error_of(lambda: rpc.rpc_sync("worker1", torch.max, args=(torch.ones(2), 0)))
        assert "should be a single IValue, got a vector of size 2" in text
        text = error_of(lambda: rpc.rpc_sync("worker1", torch.mm, args=(torch.ones(2), 0)))
        assert "failed to match" in text
        args = (torch.ones(2, 3), torch.ones(2, 3))
        text = error_of(lambda: rpc.rpc_sync("worker1", torch.mm, args=args))
        assert "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)" in text.splitlines()[0]

    play(story)


def test_functions_that_answer_later() -> None:
    def story() -> None:
        assert rpc.rpc_sync("worker1", later, args=(5,)) == 5
        assert rpc.remote("worker1", later, args=(5,)).to_here() == 5
        for call in (
            lambda: rpc.rpc_sync("worker1", no_future),
            lambda: rpc.remote("worker1", no_future).to_here(),
        ):
            assert error_of(call).endswith(
                "Functions decorated with @rpc.async_function must return a "
                "torch.futures.Future object, but got builtins.int"
            )
        assert error_of(lambda: rpc.rpc_sync("worker1", fails_later)) == "ValueError: late"
        assert error_of(lambda: rpc.remote("worker1", fails_later).to_here()) == "ValueError: late"
        text = error_of(lambda: rpc.rpc_sync("worker1", fails_elsewhere))
        assert text.startswith("KeyError: ") and "On WorkerInfo(id=2, name=worker2)" in text

    play(story)


def test_errors_say_where_they_come_from(caplog: pytest.LogCaptureFixture) -> None:
    def story() -> None:
        worker = current_worker()
        text = error_of(lambda: rpc.rpc_sync("worker1", unfit_result))
        assert "local object" in text and not text.startswith("Error on Node")
        unknown = PropagateGradientsReq((77, 5), [], False, 0)  # type: ignore[arg-type]
        text = error_of(lambda: send(unknown.to_message()))
        assert text == "Error on Node 1: Could not find autograd context with id: 77"
        garbage = PythonCall(b"no pickle", []).to_message()
        assert error_of(lambda: send(garbage)).startswith("Error on Node 1: UnpicklingError: ")
        payload, tensors = serialize(worker, PythonUDF(here, (), {}))
        assert send(PythonCall(payload, tensors).to_message()).type is MessageType.PYTHON_RET

    with caplog.at_level(logging.ERROR):
        play(story)
    assert "Received error while processing request type 273" in caplog.text


def test_control_messages_for_the_unknown_are_acknowledged() -> None:
    def story() -> None:
        rref, fork = GlobalUniqueId(0, 500), GlobalUniqueId(0, 501)
        for _ in range(2):
            for request in (
                RRefChildAccept(fork),
                RRefForkRequest(rref, fork),
                RRefUserDelete(rref, fork),
                RRefForkRequest(rref, fork),
                CleanupAutogradContextReq(77),
            ):
                reply = send(request.to_message())
                assert reply.type.is_response

    play(story)


def test_a_call_runs_in_the_context_it_was_made_in() -> None:
    def story() -> None:
        assert rpc.rpc_sync("worker1", current_context) == -1
        with dist_autograd.context() as context_id:
            assert rpc.rpc_sync("worker1", current_context) == context_id
            assert rpc.remote("worker1", current_context).to_here() == context_id
        assert rpc.rpc_sync("worker1", current_context) == -1

    play(story)


def test_backward_from_a_reference() -> None:
    def story() -> None:
        ones = torch.ones(3, dtype=torch.float64, requires_grad=True)
        with dist_autograd.context() as context_id:
            loss = rpc.remote("worker1", squared_sum, args=(ones,))
            loss.backward(context_id)
            assert torch.equal(dist_autograd.get_gradients(context_id)[ones], 2 * ones.detach())
        with dist_autograd.context() as context_id:
            made = rpc.rpc_sync("worker1", torch.mul, args=(ones, 3.0))
            RRef(made.sum()).backward(context_id)
            assert torch.equal(
                dist_autograd.get_gradients(context_id)[ones], torch.full((3,), 3.0).double()
            )
        RRef((ones * 2).sum()).backward()
        assert ones.grad is not None and torch.equal(ones.grad, torch.full((3,), 2.0).double())

    play(story)


def squared_sum(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor * tensor).sum()


def test_backward_from_a_reference_that_is_unfit() -> None:
    def story() -> None:
        theirs = rpc.remote("worker1", ident, args=(5,))
        text = error_of(theirs.backward)
        assert text == "User RRefs require 'dist_autograd_ctx_id' to be specified"
        assert (
            error_of(lambda: theirs.backward(77)) == "RRef should contain a tensor for .backward()"
        )
        assert error_of(RRef(5).backward) == "RRef should contain a tensor for .backward()"
        tensor = rpc.remote("worker1", torch.ones, args=([2],))
        text = error_of(lambda: tensor.backward(77))
        assert text == "Could not find autograd context with id: 77"
        unknown = RRefBackwardReq(GlobalUniqueId(0, 999), 77)
        agent = current_worker().agent
        assert agent is not None
        pending = agent.send(1, unknown.to_message(), 0.5)
        assert "RPCErr:1" in error_of(pending.wait)
        send(RRefUserDelete(GlobalUniqueId(0, 999), GlobalUniqueId(0, 998), True).to_message())

    play(story)


def test_a_request_under_the_profiler() -> None:
    def story() -> None:
        call, _ = make_script_call(current_worker(), "aten::mm", (torch.ones(2, 2),) * 2, {})
        request = RunWithProfilingReq(call.to_message(), GlobalUniqueId(0, 900), (1,))
        reply = RunWithProfilingResp.from_message(send(request.to_message()))
        assert reply.profiling_id == GlobalUniqueId(0, 900)
        assert reply.wrapped.type is MessageType.SCRIPT_RET
        assert "aten::mm" in [mark["name"] for marks in reply.events for mark in marks]

    play(story)


def test_nested_calls_and_methods() -> None:
    def story() -> None:
        counter = rpc.remote("worker1", Counter, args=(0,))
        futures = [rpc.rpc_async("worker2", add_through, args=(counter, n)) for n in range(8)]
        for future in futures:
            future.wait()
        assert counter.rpc_sync().add(0) == sum(range(8))

    play(story)


def add_through(counter: RRef[Counter], by: int) -> None:
    counter.rpc_sync().add(by)


def test_what_a_trace_tells() -> None:
    def story() -> None:
        rpc.remote("worker1", slow, args=(7, 0.1)).to_here()
        with pytest.raises(RuntimeError):
            rpc.rpc_sync("worker1", fail)

    _, cluster = play(story)
    started = cluster.trace.of(tracing.HANDLER_STARTED)
    ended = cluster.trace.of(tracing.HANDLER_ENDED)
    assert len(started) == len(ended)
    names = [event.fields["name"] for event in cluster.trace.of(tracing.UDF_STARTED)]
    assert "slow" in names and "fail" in names
    assert [e.fields["error"] for e in cluster.trace.of(tracing.UDF_ENDED)].count("KeyError") == 1
    lives = [
        tracing.USER_CREATED,
        tracing.USER_PENDING,
        tracing.OWNER_CREATED,
        tracing.OWNER_VALUE_SET,
        tracing.USER_CONFIRMED,
        tracing.USER_DELETED,
        tracing.OWNER_DELETED,
    ]
    order = [e.type for e in cluster.trace.of(*lives)]
    assert [order.count(type) for type in lives] == [1] * len(lives)
    assert order.index(tracing.OWNER_VALUE_SET) < order.index(tracing.USER_CONFIRMED)
    assert order.index(tracing.USER_DELETED) < order.index(tracing.OWNER_DELETED)
