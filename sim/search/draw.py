"""What a seed stands for: a scenario, drawn here and nowhere else.

Without faults a seed draws a program, latencies, the order of tasks and how the group begins and
ends. Under a profile of faults it first draws which kinds of faults there are at all, then how
much of each, how long they last, how long a call may take, the latencies and the order. So
different seeds stress different things: one only delays, the next only crashes, a third does a
little of everything.

Each decision under a profile draws from a stream of its own name, ``(profile, seed, what it
decides)``: a new kind of fault does not change what is drawn for the others.

Profiles: ``mild`` has only what the protocol makes good, so every property holds and nothing may
fail; ``rough`` has some kinds of everything; ``storm`` many kinds at high rates.
"""

from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import NamedTuple

import squall.sim.programs.stories.play  # noqa: F401  registers the stories that programs have
from squall.model.generate.choices import SeededChoices
from squall.model.generate.failing import with_failing_calls
from squall.model.generate.generator import generate
from squall.model.generate.profiles import Limits
from squall.model.program.program import Program, computation_of, source
from squall.sim.faults.draw import MILD, PROFILES, Drawing, Profile, stream_of
from squall.sim.faults.file import fitting
from squall.sim.faults.kinds.raising import Raise
from squall.sim.faults.plan import NO_FAULTS, Order, Plan, Schedule
from squall.sim.names import Device, EngineName
from squall.sim.scenario import Scenario, World

__all__ = ["MILD", "PROFILES", "Profile", "Settings", "draw", "draw_faults", "expanded"]

_LATENCIES = (
    "lognormal:0.001:0.5",
    "lognormal:0.001:0.5",
    "lognormal:0.001:1.5",
    "uniform:0.0001:0.01",
    "constant:0.001",
    "0",
)
_ORDERS: tuple[Order, ...] = ("fifo", "random")
#: how many programs have calls that fail, of which nothing may be left
_FAILING_CALLS = 0.25
_SHUT_DOWN_EARLY = 0.25
_SKIP_HANDSHAKES = 0.9

#: the same under faults
_FAULTY_LATENCIES = tuple(dict.fromkeys(_LATENCIES))
#: seconds of virtual time that a call may take
_TIMEOUTS_S = (0.5, 2.0, 2.0, 10.0, 60.0)
_LONG_TIMEOUTS_S = (2.0, 10.0, 10.0, 60.0)
#: programs under faults are small: a few calls are enough for a fault to break something, and a
#: campaign runs more of them
_LIMITS = Limits(trainers=2, steps=2, ops=4, leaves=3, unused=False, stories=False)
_WORKERS = (2, 2, 3, 3, 3, 4)


class Settings(NamedTuple):
    """What all scenarios of a campaign have in common.

    ``profile`` draws the faults of each seed; ``plan`` is the same for all, but for what is about
    workers that a program does not have. ``stats``: count features and situations. ``twice``: run
    every scenario two times, and compare.
    """

    profile: Profile | None = None
    plan: Plan = NO_FAULTS
    engine: EngineName = "port"
    device: Device = "cpu"
    stats: bool = False
    twice: bool = False


def settings_of(profile: str) -> Settings:
    """The settings of a campaign under a profile of that name, "" for none. Raises ValueError."""
    if not profile:
        return Settings()
    for known in PROFILES:
        if known == profile:
            return Settings(known)
    raise ValueError(f"there is no profile {profile!r}, expected one of {', '.join(PROFILES)}")


#: what is drawn for the port alone, and why
PORT_ONLY = {
    "calls that fail between operations (fails_first)": "what such a call leaves on the compiled "
    "engine holds up every later pass of its context (failed-call-blocks-backward)",
}


def draw(seed: int, settings: Settings = Settings()) -> Scenario:  # noqa: B008 - it never changes
    """The scenario of a seed."""
    if settings.profile is not None:
        program, world = _draw_faulty(settings.profile, seed)
    else:
        program, world = _draw_plain(seed, settings.plan)
    if settings.engine == "port" and not _raises(world.faults):
        stream = random.Random(repr(("failing calls", settings.profile, seed)))
        if stream.random() < _FAILING_CALLS:
            program = with_failing_calls(SeededChoices(stream), program)
    return Scenario(
        work=program,
        seed=seed,
        world=replace(world, device=settings.device),
        engine=settings.engine,
        profile=settings.profile,
    )


def _raises(plan: Plan) -> bool:
    """Whether an exception may be raised in a call of which nobody knows: if the function raises,
    its caller's send function stays, and holds up every later pass of the context."""
    return any(isinstance(item, Raise) for item in plan.inner)


def _draw_plain(seed: int, plan: Plan) -> tuple[Program, World]:
    program = generate(SeededChoices(random.Random(seed)))
    stream = random.Random(repr(("world", seed)))
    latency = stream.choice(_LATENCIES)
    order = stream.choice(_ORDERS)
    if not plan:
        return program, World(
            latency=latency,
            faults=Plan(schedule=Schedule(order=order)),
            shut_down_early=stream.random() < _SHUT_DOWN_EARLY,
            skip_handshakes=stream.random() < _SKIP_HANDSHAKES,
        )
    plan = fitting(plan, program.workers)
    if plan.schedule == Schedule():
        plan = replace(plan, schedule=Schedule(order=order))
    # Exchanges of objects between workers are not run under faults (sim/programs/faults.py).
    return computation_of(program), World(latency=latency, faults=plan)


def _draw_faulty(profile: Profile, seed: int) -> tuple[Program, World]:
    # Programs of several workers only: with a single one hardly any fault has an effect.
    number = 0
    while True:
        stream = stream_of(profile, seed, "program", number)
        limits = _LIMITS._replace(workers=stream.choice(_WORKERS))
        program = computation_of(generate(SeededChoices(stream), limits))
        if program.workers > 1:
            break
        number += 1
    if stream_of(profile, seed, "retry").random() < 0.5:
        program = _retrying(program)
    timeouts_s = _TIMEOUTS_S if profile != "mild" else _LONG_TIMEOUTS_S
    timeout_s = stream_of(profile, seed, "timeout").choice(timeouts_s)
    small = not _waits_in_threads(program)
    plan = Drawing(profile, seed, program.workers, timeout_s, small_pools=small).draw()
    latency = stream_of(profile, seed, "latency").choice(_FAULTY_LATENCIES)
    return program, World(latency=latency, faults=plan, rpc_timeout_s=timeout_s)


def draw_faults(profile: Profile, seed: int, workers: int, timeout_s: float) -> Plan:
    """The faults of a seed for something else than its program: a script, say.

    ``timeout_s``: how long its calls may take, in seconds of virtual time.
    """
    return Drawing(profile, seed, workers, timeout_s).draw()


def _waits_in_threads(program: Program) -> bool:
    """Whether a function may wait, without a limit, for a value of the worker that it runs on."""
    if any(trainer.optimizer is not None for trainer in program.trainers):
        return True
    for _, _, step in program.steps:
        for at, op in enumerate(step.ops):
            if op.call.startswith("helper"):
                return True
            for input in op.inputs:
                is_leaf, number = source(program, at, input)
                home = program.leaves[number].owner if is_leaf else step.ops[number].worker
                if input.how != "value" and home == op.worker:
                    return True
    return False


def _retrying(program: Program) -> Program:
    """Every step is tried again in a fresh context if it fails."""
    trainers = tuple(
        replace(trainer, steps=tuple(replace(step, retry=True) for step in trainer.steps))
        for trainer in program.trainers
    )
    return replace(program, trainers=trainers)


def expanded(scenario: Scenario) -> list[tuple[str, str]]:
    """Everything that a scenario of a program has drawn, as names and values: for reports."""
    program, plan, world = scenario.program, scenario.faults, scenario.world
    assert program is not None, "a script draws nothing beforehand"
    steps = [step for _, _, step in program.steps]
    rows = [
        ("seed", str(scenario.seed)),
        ("profile", scenario.profile or "none"),
        ("workers", str(program.workers)),
        ("trainers", str(len(program.trainers))),
        ("steps", f"{len(steps)}, retried: {any(step.retry for step in steps)}"),
        ("operations", str(sum(len(step.ops) for step in steps))),
        ("latency", world.latency),
        ("call timeout", f"{world.rpc_timeout_s:g} s"),
    ]
    schedule = plan.schedule
    order: str = schedule.order
    if order == "pct":
        order += f", depth {schedule.depth} within {schedule.steps} steps"
    rows.append(("order", order))
    if not len(plan):
        return rows
    heal = "never" if plan.heal_s is None else f"after {plan.heal_s:g} s"
    rows.append(("faults end", heal))
    for group, at, item in plan.items():
        values = {
            field.name: getattr(item, field.name)
            for field in fields(item)
            if field.name not in ("kind", "id") and getattr(item, field.name) != field.default
        }
        said = ", ".join(f"{name}={value}" for name, value in values.items())
        rows.append((f"{group}[{at}]", f"{item.kind} {said}".rstrip()))
    return rows
