"""What must hold under faults, and the few things that the protocol cannot promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from squall.model.checks.faults import ERRORS, RECOVERY, TIMEOUTS
from squall.model.checks.registry import check
from squall.model.checks.rref_allowances import EXCEPTIONS
from squall.model.checks.rrefs import CONTEXTS, RREFS
from squall.model.events.fault_effects import explained, faults_of, slow_calls
from squall.model.events.run import Run
from squall.model.events.run_parts import Outcomes
from squall.model.one_process.recovery import Recovery, recovery_outcome, recovery_program
from squall.properties.support.paths import CORPUS
from squall.real import tracing
from squall.real.autograd import api as dist_autograd
from squall.real.rpc import api as rpc
from squall.real.worker import current_worker
from squall.sim.cluster import Cluster
from squall.sim.faults.plan import Crash, Delay, Drop, Fail, Moment, Plan
from squall.sim.programs.run import run_program
from squall.sim.scenario import Expected
from squall.sim.scenarios.file import load_scenario
from squall.sim.scenarios.replay import replay

Main = Callable[[], Any]


def play(plan: Plan, mains: dict[int, Main], *, workers: int = 3, **options: Any) -> Run:
    """Run ``mains`` by rank under a plan until everything has come to rest."""
    options = {"latency": "constant:0.001", "rpc_timeout_s": 2.0, **options}
    with Cluster(workers, faults=plan, **options) as cluster:
        cluster.run(lambda rank: mains.get(rank, lambda: None)(), shutdown=False)
        for worker in cluster.workers:
            if cluster.is_dead(worker):
                cluster.network.announce(worker)
        cluster.settle()
        cluster.shutdown()
        return Run(cluster.trace.records, ended_s=cluster.runtime.now())


def sleep(seconds: float) -> None:
    current_worker().runtime.sleep(seconds)


def failing(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The error that a call ends with, which it must."""
    try:
        call(*args, **kwargs)
    except RuntimeError as error:
        return str(error)
    raise AssertionError("the call went well")


def keep(rref: Any) -> None:
    current_worker().locals.setdefault("kept", []).append(rref)


def hand_on(to: str, rref: Any) -> None:
    rpc.rpc_sync(to, fetch, args=(rref,))


def fetch(rref: Any) -> Any:
    return rref.to_here()


def both(one: Any, other: Any) -> tuple[Any, Any]:
    return one.local_value(), other.to_here()


def both_in_a_context(one: Any, other: Any) -> tuple[Any, Any]:
    with dist_autograd.context():
        return both(one, other)


def double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 2


def relay(tensor: torch.Tensor) -> torch.Tensor:
    return rpc.rpc_sync("worker2", double, args=(tensor,))


def make() -> str:
    return "a value"


class Keeper:
    """A value that refers to what it was given."""

    def __init__(self) -> None:
        self.kept: Any = None

    def keep(self, rref: Any) -> None:
        self.kept = rref


# -- what the protocol cannot promise -------------------------------------------------------------


def lost_fork() -> Run:
    """The call that carries the reference is lost."""
    plan = Plan(messages=(Drop(types=("PYTHON_CALL",), src=0, dst=1, nth=(1,)),))

    def main() -> None:
        rref = rpc.RRef("a value")
        assert "set timeout" in failing(rpc.rpc_sync, "worker1", fetch, args=(rref,))

    return play(plan, {0: main})


def ended_user() -> Run:
    """Who has the reference ends."""
    plan = Plan(workers=(Crash(worker=1, at_s=1.0),))

    def main() -> None:
        rpc.rpc_sync("worker1", keep, args=(rpc.RRef("a value"),))

    return play(plan, {0: main})


def unheard_delete() -> Run:
    """No deletion arrives, for longer than it is tried."""
    plan = Plan(messages=(Drop(types=("RREF_USER_DELETE",), dst=1),))

    def main() -> None:
        rpc.remote("worker1", make).to_here()

    return play(plan, {0: main})


def unheard_acceptance() -> Run:
    """The parent never hears that its child is known: it keeps its own reference."""
    plan = Plan(messages=(Drop(types=("RREF_CHILD_ACCEPT",), src=2, dst=1),))

    def main() -> None:
        rpc.rpc_sync("worker1", hand_on, args=("worker2", rpc.RRef("a value")))

    return play(plan, {0: main})


def ended_owner() -> Run:
    """A reference is on its way while its owner ends: a new process is asked for the value."""
    plan = Plan(
        messages=(Delay(types=("PYTHON_CALL",), src=0, dst=2, nth=(1,), seconds=3.0),),
        workers=(Crash(worker=1, at_s=1.0, restart_after_s=0.5),),
    )

    def main() -> None:
        rref = rpc.remote("worker1", make)
        assert rref.to_here() == "a value"
        assert "set timeout" in failing(rpc.rpc_sync, "worker2", fetch, args=(rref,))

    return play(plan, {0: main})


def held_argument() -> Run:
    """A call goes to a worker whose end its caller has not heard of, behind a late answer: in the
    new process its function waits for a value of the old one, and keeps what else it was given."""
    plan = Plan(
        messages=(Delay(types=("PYTHON_RET",), src=1, dst=0, nth=(1,), seconds=1.5),),
        workers=(Crash(worker=1, at_s=0.5, restart_after_s=0.0),),
    )

    def main() -> None:
        rref = rpc.remote("worker1", make)
        assert rref.to_here() == "a value"
        late = rpc.rpc_async("worker1", make)
        sleep(1.0)
        assert "closed" in failing(rpc.rpc_sync, "worker1", both, args=(rref, rpc.RRef("another")))
        assert late.wait() == "a value"

    return play(plan, {0: main})


def held_context() -> Run:
    """As :func:`held_argument`, and the function has begun a context."""
    plan = Plan(
        messages=(Delay(types=("PYTHON_RET",), src=1, dst=0, nth=(1,), seconds=1.5),),
        workers=(Crash(worker=1, at_s=0.5, restart_after_s=0.0),),
    )

    def main() -> None:
        rref = rpc.remote("worker1", make)
        assert rref.to_here() == "a value"
        late = rpc.rpc_async("worker1", make)
        sleep(1.0)
        arguments = (rref, rpc.RRef("another"))
        assert "closed" in failing(rpc.rpc_sync, "worker1", both_in_a_context, args=arguments)
        assert late.wait() == "a value"

    return play(plan, {0: main})


def held_by_a_value() -> Run:
    """A value refers to another one, and no deletion of it arrives."""
    plan = Plan(messages=(Drop(types=("RREF_USER_DELETE",), dst=1),))

    def main() -> None:
        keeper = rpc.remote("worker1", Keeper)
        keeper.rpc_sync().keep(rpc.RRef("a value"))

    return play(plan, {0: main})


def ended_forwarder() -> Run:
    """A worker hears of a release, and ends before the worker behind it does."""
    plan = Plan(
        messages=(Drop(types=("CLEANUP_AUTOGRAD_CONTEXT_REQ",), src=1, dst=2),),
        workers=(Crash(worker=1, moment=Moment(event="context_released", worker=1)),),
    )

    def main() -> None:
        with dist_autograd.context():
            rpc.rpc_sync("worker1", relay, args=(torch.ones(2, requires_grad=True),))

    return play(plan, {0: main})


def ended_maker() -> Run:
    """The only worker that had to do with the maker of a context ends when that does, and the worker
    behind it was never connected to the maker."""
    behind = Moment(event="context_created", worker=2)
    plan = Plan(workers=(Crash(worker=0, moment=behind), Crash(worker=1, moment=behind)))

    def main() -> None:
        with dist_autograd.context():
            rpc.rpc_sync("worker1", relay, args=(torch.ones(2, requires_grad=True),))

    return play(plan, {0: main}, skip_handshakes=True)


SCENARIOS: dict[str, Callable[[], Run]] = {
    "lost fork": lost_fork,
    "ended user": ended_user,
    "unheard delete": unheard_delete,
    "unheard acceptance": unheard_acceptance,
    "held parent": unheard_acceptance,
    "ended owner": ended_owner,
    "ended forwarder": ended_forwarder,
    "held argument": held_argument,
    "held context": held_context,
    "held by a value": held_by_a_value,
}


@pytest.mark.parametrize("restart_after_s", [None, 0.1])
def test_who_waits_for_a_creation_hears_that_the_creator_has_ended(
    restart_after_s: float | None,
) -> None:
    """The creation is lost, somebody else asks for the value, and the creator ends."""
    plan = Plan(
        messages=(Drop(types=("PYTHON_REMOTE_CALL",), src=0, dst=1),),
        workers=(Crash(worker=0, at_s=0.5, restart_after_s=restart_after_s),),
    )

    def main() -> None:
        rref = rpc.remote("worker1", make)
        rpc.rpc_sync("worker2", fetch, args=(rref,))

    run = play(plan, {0: main})
    assert [str(each) for each in check(run)] == []
    failed = [run.records[n] for n in run.of(tracing.OWNER_FAILED)]
    assert [(worker, "which was to create" in values[1]) for _, worker, _, _, values in failed] == [
        (1, True)
    ]


@pytest.mark.parametrize(
    ("name", "scenario"),
    [*((each.name, SCENARIOS[each.name]) for each in EXCEPTIONS), ("ended forwarder", ended_maker)],
    ids=[*(each.name for each in EXCEPTIONS), "ended maker"],
)
def test_an_exception_is_needed_and_is_enough(
    name: str, scenario: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scenario()
    assert list(RREFS.check(run)) == []
    assert list(CONTEXTS.check(run)) == []
    assert name in run.judged.excuses
    # Without the exceptions it is a violation. When it no longer is, the exception is not needed.
    monkeypatch.setattr("squall.model.checks.rrefs.Excuses.of", lambda self, left: None)
    monkeypatch.setattr("squall.model.checks.rrefs.excuse_of_context", lambda *_: None)
    assert [*RREFS.check(run), *CONTEXTS.check(run)]


def test_what_was_not_hit_has_no_excuse() -> None:
    """A worker that keeps a reference is a leak, whatever else has gone wrong elsewhere."""
    plan = Plan(messages=(Drop(types=("PYTHON_CALL",), src=2, dst=1, nth=(1,)),))

    def main() -> None:
        rpc.rpc_sync("worker1", keep, args=(rpc.RRef("a value"),))

    def other() -> None:
        failing(rpc.rpc_sync, "worker1", make)

    run = play(plan, {0: main, 2: other})
    assert faults_of(run).hit()
    assert {violation.what for violation in RREFS.check(run)} >= {"an owner was left"}


# -- what is made good ----------------------------------------------------------------------------


def test_a_fork_whose_message_could_not_be_sent_is_taken_back() -> None:
    plan = Plan(messages=(Fail(types=("PYTHON_CALL",), src=0, dst=1, nth=(1,)),))

    def main() -> None:
        rref = rpc.RRef("a value")
        assert "connection reset" in failing(rpc.rpc_sync, "worker1", fetch, args=(rref,))

    run = play(plan, {0: main})
    assert list(RREFS.check(run)) == []
    assert run.judged.excuses == ()


def test_what_is_sent_again_hits_nothing() -> None:
    types = ("RREF_USER_DELETE", "RREF_FORK_REQUEST", "RREF_CHILD_ACCEPT")
    plan = Plan(messages=tuple(Drop(types=(type,), nth=(1, 2)) for type in types))

    def main() -> None:
        rref = rpc.remote("worker1", make)
        rpc.rpc_sync("worker2", fetch, args=(rref,), timeout=20)

    run = play(plan, {0: main})
    faults = faults_of(run)
    assert faults.counts["drop"] == 6
    assert not faults.hit()
    assert check(run) == []


def test_a_late_answer_is_a_timeout_and_nothing_is_left() -> None:
    plan = Plan(messages=(Delay(types=("PYTHON_RET",), src=1, dst=0, nth=(1,), seconds=5.0),))

    def main() -> None:
        assert "set timeout" in failing(rpc.rpc_sync, "worker1", rpc.RRef, args=("a value",))

    run = play(plan, {0: main})
    assert faults_of(run).hit()
    assert list(RREFS.check(run)) == []
    assert run.judged.excuses == ()


def test_who_hears_of_its_owners_end_asks_nobody() -> None:
    plan = Plan(workers=(Crash(worker=1, at_s=1.0, restart_after_s=0.5),))

    def main() -> None:
        rref = rpc.remote("worker1", make)
        assert rref.to_here() == "a value"
        sleep(3.0)
        assert "has ended" in failing(rref.to_here)
        assert "has ended" in failing(rpc.rpc_sync, "worker2", fetch, args=(rref,))
        assert rpc.rpc_sync("worker1", make) == "a value"

    run = play(plan, {0: main})
    assert list(RREFS.check(run)) == []
    assert run.judged.excuses == ()


def test_who_waits_for_a_value_that_never_comes_does_not_keep_the_others() -> None:
    """The creation is lost, and so is every word of its user's end: when all have come to their
    end, who asked for the value is told that it will not come, and the workers part."""
    plan = Plan(messages=(Drop(types=("PYTHON_REMOTE_CALL", "RREF_USER_DELETE"), dst=1),))

    def main() -> None:
        assert "set timeout" in failing(rpc.remote("worker1", make).to_here)

    run = play(plan, {0: main})
    over = "RPC has been shut down on the owner of the RRef."
    errors = [run.records[n][4][-1] for n in run.of(tracing.HANDLER_ENDED)]
    assert errors.count(over) == 1
    assert list(RREFS.check(run)) == []


# -- the checks themselves --------------------------------------------------------------------------


def call(took_s: float, limit_s: float) -> Run:
    return Run(
        [
            (0.0, 0, 1, tracing.CALL_STARTED, (1, 1, "PYTHON_CALL", limit_s, ())),
            (took_s, 0, 2, tracing.CALL_ENDED, (1, 1, "timeout")),
        ]
    )


def test_a_call_that_ends_after_its_timeout() -> None:
    assert list(TIMEOUTS.check(call(2.0, 2.0))) == []
    assert list(TIMEOUTS.check(call(50.0, 0.0))) == []
    (violation,) = TIMEOUTS.check(call(2.5, 2.0))
    assert violation.what == "a call ended after its timeout"


def test_a_wrong_gradient_after_the_faults() -> None:
    program = recovery_program(3, (0, 2))
    recovery = Recovery(program, recovery_outcome(program), (0, 2))
    recovery.got = recovery.expected
    run = Run([], outcomes=Outcomes(recovery=recovery))
    assert list(RECOVERY.check(run)) == []
    step = recovery.expected.steps[0, 0]
    for step.error in ("no",):
        assert [violation.what for violation in RECOVERY.check(run)] == ["a step after the faults"]
    step.error = None
    recovery_outcome.cache_clear()
    recovery.expected = recovery_outcome(program)
    recovery.got.steps[0, 0].passes[0][0] += 1
    assert [violation.what for violation in RECOVERY.check(run)] == ["a gradient after the faults"]
    recovery_outcome.cache_clear()


NEVER = Plan(messages=(Drop(nth=(9999,)),), heal_s=0.5)


@pytest.mark.parametrize("latency", ["constant:0.2", "constant:0.3"])
def test_a_network_that_is_slower_than_the_calls_may_be_is_nobodys_fault(latency: str) -> None:
    """The way there and back takes 0.6 s, a call 0.5 s at most; with 0.2 s, the calls inside."""
    scenario = load_scenario(CORPUS / "fault_drop.json")
    slow = scenario.in_world(latency=latency, rpc_timeout_s=0.5)
    for plan in (scenario.faults, NEVER):
        run = replay(replace(slow.in_world(faults=plan), expected=Expected()))
        assert run.violations == []
        assert slow_calls(run)


def test_a_call_that_timed_out_while_nothing_was_on_its_way() -> None:
    """The message took less time than the call had: its receiver did not answer."""
    records = [
        (0.0, 0, 1, tracing.CALL_STARTED, (1, 1, "PYTHON_CALL", 2.0, ())),
        (0.0, -1, 1, tracing.MESSAGE_SENT, (5, 0, 1, "PYTHON_CALL", 1, 20, ())),
        (1.9, -1, 2, tracing.MESSAGE_DELIVERED, (5, 0, 1, "PYTHON_CALL", 1, 1.9)),
        (2.0, 0, 2, tracing.CALL_ENDED, (1, 1, "timeout")),
    ]
    assert slow_calls(Run(records)) == []
    records[2] = (2.5, *records[2][1:])
    assert slow_calls(Run(records)) == [3]


def test_a_call_fails_for_a_reason_of_its_own() -> None:
    """Worker 2 ends; a call to worker 1 has nothing to do with that."""
    quiet = (3.0, 0, 0, tracing.TABLES_COUNTED, (0,) * 8)

    def run(dst: int) -> Run:
        return Run(
            [
                (0.0, 0, 1, tracing.CALL_STARTED, (1, dst, "PYTHON_CALL", 2.0, ())),
                (1.0, -1, 0, tracing.FAULT_INJECTED, ("crash", "", 2, -1, -1, "", 0, -1, None)),
                (1.0, 0, 2, tracing.CALL_ENDED, (1, dst, "error")),
                quiet,
            ]
        )

    assert list(ERRORS.check(run(2))) == []
    (violation,) = ERRORS.check(run(1))
    assert violation.what == "a call failed for no reason of its own"


def test_errors_that_say_what_happened() -> None:
    assert explained("RPCErr:1:RPC ran for more than set timeout (60000 ms) and ...")
    assert explained("the connection to worker 3 was closed")
    assert not explained("KeyError: 5")
    assert not explained("")


def test_survivors_release_what_a_worker_made_that_ended() -> None:
    """Worker 0 ends in the middle of a step; what it had reached is released everywhere."""
    program = recovery_program(3, (0, 1, 2))
    plan = Plan(workers=(Crash(worker=0, at_s=0.0025),))
    whole = run_program(program, faults=plan, seed=1, latency="constant:0.001", rpc_timeout_s=2.0)
    assert whole.outcomes.recovery is not None
    assert whole.outcomes.recovery.core == (1, 2)
    run = Run(whole.cluster.trace.records, outcomes=Outcomes(recovery=whole.outcomes.recovery))
    made = [n for n in run.of(tracing.CONTEXT_CREATED) if run.records[n][4][0] == 0]
    assert {run.records[n][1] for n in made} > {0}
    assert list(CONTEXTS.check(run)) == []
    assert list(RECOVERY.check(run)) == []
