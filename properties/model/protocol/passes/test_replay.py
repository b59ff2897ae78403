"""Runs as paths of the model: Tina trains, Paul and Petra have parts of her graph."""

from __future__ import annotations

from typing import Any

import pytest

from squall.model.protocol.passes.not_allowed import NotAllowedError
from squall.model.protocol.passes.number_set import Numbers
from squall.model.protocol.passes.replay import READERS, Replay
from squall.real import tracing
from squall.real.tracing import EventType

TINA, PAUL, PETRA = 0, 1, 2
CONTEXT = 7
#: messages: Tina's arguments to Paul, his result, and her result to Petra
ARGUMENT, RESULT = 20, 21
GRADIENTS, RELEASE = "BACKWARD_AUTOGRAD_REQ", "CLEANUP_AUTOGRAD_CONTEXT_REQ"

#: worker, task, type, values
Told = tuple[int, int, EventType, tuple[Any, ...]]
#: tasks: Tina's own, her runner of a pass, Paul's handlers, Tina's
MAIN, RUNNER, PAULS, TINAS = range(4)


def graph(*sends: tuple[int, ...], root: tuple[int, ...] = ()) -> tuple[Any, ...]:
    """Of a worker: for each send function its message and the messages that it leads to."""
    recvs = sorted({each for led in (root, *(send[1:] for send in sends)) for each in led})
    at = {message: 100 + n for n, message in enumerate(recvs)}
    return (
        (0, tuple((at[each], 0) for each in root), (), -1),
        *(
            (n, ((50, 0), *((at[each], 0) for each in send[1:])), (), send[0])
            for n, send in enumerate(sends, 1)
        ),
        (50, (), ((2,),), -1),
        *((number, (), ((2,),), message) for message, number in at.items()),
    )


def part(worker: int, task: int, roots: int, described: Any, outstanding: int) -> list[Told]:
    return [
        (worker, task, tracing.PASS_STARTED, (CONTEXT, roots, False, outstanding)),
        (worker, task, tracing.DEPENDENCIES_COMPUTED, (CONTEXT, (), described)),
    ]


def ended(worker: int, task: int, error: str | None = None) -> Told:
    return (worker, task, tracing.PASS_ENDED, (CONTEXT, error, 0, (), ()))


FORWARD: list[Told] = [
    (TINA, MAIN, tracing.CONTEXT_CREATED, (CONTEXT,)),
    (TINA, MAIN, tracing.KNOWN_WORKER_ADDED, (CONTEXT, PAUL)),
    (TINA, MAIN, tracing.SEND_ATTACHED, (CONTEXT, ARGUMENT, PAUL, 1)),
    (PAUL, PAULS, tracing.CONTEXT_CREATED, (CONTEXT,)),
    (PAUL, PAULS, tracing.RECV_ATTACHED, (CONTEXT, ARGUMENT, TINA, 1)),
    (PAUL, PAULS, tracing.KNOWN_WORKER_ADDED, (CONTEXT, TINA)),
    (PAUL, PAULS, tracing.SEND_ATTACHED, (CONTEXT, RESULT, TINA, 1)),
    (TINA, TINAS, tracing.RECV_ATTACHED, (CONTEXT, RESULT, PAUL, 1)),
]
BEGUN: list[Told] = [
    *FORWARD,
    *part(TINA, MAIN, 1, graph((ARGUMENT,), root=(RESULT,)), 1),
    (TINA, RUNNER, tracing.GRADIENTS_SENT, (CONTEXT, RESULT, PAUL)),
    (TINA, RUNNER, tracing.CALL_STARTED, (5, PAUL, GRADIENTS, 60.0, (CONTEXT, RESULT))),
    (PAUL, PAULS, tracing.HANDLER_STARTED, (TINA, GRADIENTS, 5)),
    *part(PAUL, PAULS, 0, graph((RESULT, ARGUMENT)), 1),
    (PAUL, PAULS, tracing.GRADIENTS_RECEIVED, (CONTEXT, RESULT, True)),
    (PAUL, RUNNER, tracing.GRADIENTS_SENT, (CONTEXT, ARGUMENT, TINA)),
    (PAUL, RUNNER, tracing.CALL_STARTED, (3, TINA, GRADIENTS, 60.0, (CONTEXT, ARGUMENT))),
    (TINA, TINAS, tracing.HANDLER_STARTED, (PAUL, GRADIENTS, 3)),
    (TINA, TINAS, tracing.GRADIENTS_RECEIVED, (CONTEXT, ARGUMENT, False)),
    (TINA, TINAS, tracing.HANDLER_ENDED, (PAUL, GRADIENTS, 3, None)),
]
DONE: list[Told] = [
    (PAUL, RUNNER, tracing.CALL_ENDED, (3, TINA, "ok")),
    ended(PAUL, RUNNER),
    (PAUL, RUNNER, tracing.HANDLER_ENDED, (TINA, GRADIENTS, 5, None)),
    (TINA, RUNNER, tracing.CALL_ENDED, (5, PAUL, "ok")),
    ended(TINA, MAIN),
]
RELEASED: list[Told] = [
    (TINA, MAIN, tracing.CONTEXT_RELEASED, (CONTEXT,)),
    (TINA, MAIN, tracing.CALL_STARTED, (6, PAUL, RELEASE, 60.0, (CONTEXT,))),
    (PAUL, PAULS, tracing.HANDLER_STARTED, (TINA, RELEASE, 6)),
    (PAUL, PAULS, tracing.CONTEXT_RELEASED, (CONTEXT,)),
    (PAUL, PAULS, tracing.CALL_STARTED, (4, TINA, RELEASE, 60.0, (CONTEXT,))),
    (PAUL, PAULS, tracing.HANDLER_ENDED, (TINA, RELEASE, 6, None)),
]


def told(story: list[Told]) -> Replay:
    replay = Replay()
    for worker, task, type, values in story:
        READERS[type](replay, worker, task, *values)
    replay.finish()
    return replay


def refused(story: list[Told]) -> tuple[int, str]:
    """Which event of a story is no step, and why."""
    replay = Replay()
    for number, (worker, task, type, values) in enumerate(story):
        try:
            READERS[type](replay, worker, task, *values)
        except NotAllowedError as error:
            return number, str(error)
    raise AssertionError("all of them are")


def test_the_tables_follow_the_events() -> None:
    # contexts, passes
    assert [told(FORWARD).tables(each) for each in (TINA, PAUL, PETRA)] == [(1, 0), (1, 0), (0, 0)]
    assert [told(BEGUN).tables(each) for each in (TINA, PAUL)] == [(1, 1), (1, 1)]
    done = told([*BEGUN, *DONE])
    assert [done.tables(each) for each in (TINA, PAUL)] == [(1, 0), (1, 0)]
    assert done.contexts[CONTEXT].passes[0].succeeded
    over = told([*BEGUN, *DONE, *RELEASED])
    assert [over.tables(each) for each in (TINA, PAUL)] == [(0, 0), (0, 0)]


def test_where_tensors_come_from_is_known_once_a_pass_has_looked() -> None:
    context = told(BEGUN).contexts[CONTEXT]
    assert context.passes[0].roots == Numbers([3])
    assert context.pairs[3].leads == Numbers([1])


def test_a_part_does_not_end_before_its_gradients_are_answered() -> None:
    number, why = refused([*BEGUN, ended(PAUL, RUNNER)])
    assert number == len(BEGUN)
    assert "part_ends" in why


def test_the_first_gradients_are_not_answered_before_the_part_is_over() -> None:
    number, why = refused([*BEGUN, DONE[0], DONE[2]])
    assert number == len(BEGUN) + 1
    assert "ANSWERED" in why and "WORKED_ON" in why


def test_a_part_waits_for_all_send_functions_that_there_are() -> None:
    at = next(n for n, each in enumerate(BEGUN) if each[2] is tracing.PASS_STARTED)
    smart = [*BEGUN[:at], *part(TINA, MAIN, 1, graph(root=(RESULT,)), 0)]
    assert refused(smart) == (
        at + 1,
        "expected a part that waits for pairs [1], seen pairs [], 0 outstanding",
    )


def test_gradients_leave_once_all_has_come_that_leads_to_them() -> None:
    at = next(n for n, each in enumerate(BEGUN) if each[0] == PAUL and each[1] == RUNNER)
    twice = [*BEGUN[: at + 1], BEGUN[at]]
    assert refused(twice)[0] == at + 1


def test_a_worker_tells_only_those_of_the_release_that_it_knows() -> None:
    to_petra = (TINA, MAIN, tracing.CALL_STARTED, (6, PETRA, RELEASE, 60.0, (CONTEXT,)))
    number, why = refused([*FORWARD, RELEASED[0], to_petra])
    assert number == len(FORWARD) + 1
    assert "tells those it knows" in why


def test_a_released_context_does_not_come_back() -> None:
    assert refused([*BEGUN, *DONE, *RELEASED, FORWARD[4]])[0] == len([*BEGUN, *DONE, *RELEASED])


def test_a_release_that_an_answer_told_of_has_to_follow() -> None:
    early = [*BEGUN, *DONE, *RELEASED[:3], RELEASED[5]]
    with pytest.raises(NotAllowedError, match="released on worker 1"):
        told(early)
    told([*early, *RELEASED[3:5]])


#: Tina's part fails and she releases the context as its gradients are on their way to Paul; there
#: they find none, before he tells that he has released it
GONE = "Error on Node 1: Could not find autograd context with id: 7"
OTHER = 9
RELEASED_AHEAD: list[Told] = [
    *BEGUN[: BEGUN.index((PAUL, PAULS, tracing.HANDLER_STARTED, (TINA, GRADIENTS, 5)))],
    ended(TINA, MAIN, "planted"),
    *RELEASED[:3],
    (PAUL, OTHER, tracing.HANDLER_STARTED, (TINA, GRADIENTS, 5)),
    (PAUL, OTHER, tracing.HANDLER_ENDED, (TINA, GRADIENTS, 5, GONE)),
]


def test_a_context_may_be_gone_before_its_release_is_told() -> None:
    over = told([*RELEASED_AHEAD, *RELEASED[3:]])
    assert [over.tables(each) for each in (TINA, PAUL)] == [(0, 0), (0, 0)]


def test_the_release_of_a_context_that_is_gone_has_to_be_told() -> None:
    with pytest.raises(NotAllowedError, match="context 7 released on worker 1"):
        told(RELEASED_AHEAD)


#: a context of Paul's and Petra's, of which Paul kept a tensor that Petra sent him
FURTHER, KEPT = 8 | 1 << 48, 22
FURTHER_CALL: list[Told] = [
    (PAUL, PAULS, tracing.CONTEXT_CREATED, (FURTHER,)),
    (PAUL, PAULS, tracing.KNOWN_WORKER_ADDED, (FURTHER, PETRA)),
    (PETRA, OTHER, tracing.CONTEXT_CREATED, (FURTHER,)),
    (PETRA, OTHER, tracing.KNOWN_WORKER_ADDED, (FURTHER, PAUL)),
    (PETRA, OTHER, tracing.SEND_ATTACHED, (FURTHER, KEPT, PAUL, 1)),
    (PAUL, PAULS, tracing.RECV_ATTACHED, (FURTHER, KEPT, PETRA, 1)),
]


def _with_kept() -> list[Told]:
    """Up to where Paul's part of the pass begins, in whose graph there is what he kept."""
    at = next(n for n, each in enumerate(BEGUN) if each[:3] == (PAUL, PAULS, tracing.PASS_STARTED))
    return [*BEGUN[:at], *part(PAUL, PAULS, 0, graph((RESULT, ARGUMENT, KEPT)), 1), BEGUN[at + 2]]


def test_a_tensor_of_another_context_leads_nowhere() -> None:
    context = told([*FURTHER_CALL, *_with_kept()]).contexts[CONTEXT]
    assert context.pairs[3].leads == Numbers([1])


def test_no_gradients_leave_for_another_context() -> None:
    leave = (PAUL, RUNNER, tracing.GRADIENTS_SENT, (CONTEXT, KEPT, PETRA))
    number, why = refused([*FURTHER_CALL, *_with_kept(), leave])
    assert number == len(FURTHER_CALL) + len(_with_kept())
    assert why == f"expected message {KEPT} sent before, seen no such message"


def test_a_recv_function_of_no_context_at_all_is_refused() -> None:
    _, why = refused(_with_kept())
    assert why == f"expected message {KEPT} sent before, seen no such message"


def test_a_context_that_is_not_followed_any_more_may_have_sent_it() -> None:
    replay = told(FURTHER_CALL[:4])
    replay.lost.add(FURTHER)
    for worker, task, type, values in _with_kept():
        READERS[type](replay, worker, task, *values)
    assert replay.contexts[CONTEXT].pairs[3].leads == Numbers([1])
