"""What a seed stands for: a scenario, drawn here and nowhere else.

Without faults a seed draws a program, latencies, the order of tasks and how the group begins and
ends. Under a profile of faults it first draws which kinds of faults there are at all, then how
much of each, how long they last, how long a call may take, the latencies and the order. So
different seeds stress different things: one only delays, the next only crashes, a third does a
little of everything.

Every choice has a key and a number of its own (model/generate/keyed.py), which depends on the
profile, the seed and the key alone: one more kind of operation, or of fault, takes its share and
changes no other choice. A change of one number makes a scenario that is drawn as this one but
there; :mod:`squall.sim.search.schedules` has names for some of them.

Profiles: ``mild`` has only what the protocol makes good, so every property holds and nothing may
fail; ``rough`` has some kinds of everything; ``storm`` many kinds at high rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from functools import partial
from typing import NamedTuple

import squall.sim.programs.stories.play  # noqa: F401  registers the stories that programs have
from squall.model.generate.concurrent import for_compiled
from squall.model.generate.failing import with_failing_calls
from squall.model.generate.generator import generate
from squall.model.generate.keyed import NO_CHANGES, Changes, KeyedChoices
from squall.model.generate.profiles import Limits
from squall.model.program.choices import Choices
from squall.model.program.program import Program, beside, source
from squall.model.program.stories import ALONE
from squall.model.program.validated import trusted
from squall.model.program.variants import in_one_group, under_faults
from squall.real.rpc.constants import DEFAULT_RPC_TIMEOUT_S
from squall.sim.faults.draw import MILD, PROFILES, Drawing, Profile
from squall.sim.faults.file import fitting
from squall.sim.faults.kinds.raising import Raise
from squall.sim.faults.plan import NO_FAULTS, Order, Plan, Schedule
from squall.sim.names import GROUPS, MAX_SEED, Device, EngineName
from squall.sim.scenario import Scenario, World
from squall.sim.search.schedules import RUN, Rescheduled
from squall.sim.trainings.draw import draw_training
from squall.sim.trainings.render import script_of
from squall.sim.trainings.training import training_in
from squall.sim.world.schedule import FIFO
from squall.sim.world.stand_in import STAND_IN_NAME

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
#: of a script, now and then: messages and threads take as long as what it does with a wait, and less than what people
#: give as time limits
_SLOW_LATENCY, _SLOW, _BUSY = "uniform:0.0001:0.3", 0.3, 0.5
#: how many programs have calls that fail, of which nothing may be left
_FAILING_CALLS = 0.25
_SHUT_DOWN_EARLY = 0.25
_SKIP_HANDSHAKES = 0.9

#: the same under faults
_FAULTY_LATENCIES = tuple(dict.fromkeys(_LATENCIES))
#: seconds of virtual time that a call may take
_TIMEOUTS_S = (0.5, 2.0, 2.0, 10.0, 60.0)
#: the same where nothing is lost for good; 0: as long as it takes
_LONG_TIMEOUTS_S = (2.0, 10.0, 0.0, 60.0)
#: programs under faults are small: a few calls are enough for a fault to break something, and a
#: campaign runs more of them
_LIMITS = Limits(trainers=2, steps=2, ops=4, leaves=3, unused=False, stories=False, groups=False)
#: on the stand-in device: what its streams and device maps are for, and nothing that looks at more
_DEVICE_LIMITS = Limits(workers=4, steps=2, stories=False, beside=False, acts=False, sleeps=False)
_ENGINE_HOOKS = frozenset({"retain_grad"})
_NOT_ON_STAND_IN = frozenset({"embedding"})
_WORKERS = (2, 2, 3, 3, 3, 4)
#: how many scenarios in which processes may end are about what others keep of one that does: of these a third
#: has to hear of it, or goes on
_RESTARTS = 0.2
_WITH_RESTARTS = _LIMITS._replace(workers=3, least_workers=3, beside=False, acts=False)
#: seconds that a worker waits for others at most as it leaves a group
_LEAVE_S = 500.0


class Settings(NamedTuple):
    """What all scenarios of a campaign have in common.

    ``profile`` draws the faults of each seed; ``plan`` is the same for all, but for what is about
    workers that a program does not have. ``stats``: count features and situations. ``twice``: run
    every scenario two times, and compare. ``groups``: seeds stand for trainings over process groups.
    """

    profile: Profile | None = None
    plan: Plan = NO_FAULTS
    engine: EngineName = "port"
    device: Device = "cpu"
    stats: bool = False
    twice: bool = False
    groups: bool = False


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
    "RPC groups after the first (endings)": "no reference of a later group is ever deleted on the "
    "compiled engine (references-after-a-second-init)",
    "calls that fail between operations (fails_first)": "what such a call leaves on the compiled "
    "engine holds up every later pass of its context (failed-call-blocks-backward)",
    "cargo whose call fails (cargoes.fails)": "what such a call leaves on the compiled engine stays "
    "(unwritable-argument-leaks, unsent-argument-leaks)",
    "passes through an asynchronous proxy (cargoes.call)": "its call has no context there "
    "(async-helper-without-context)",
    "cargo relayed by the worker that it is for (cargoes.via)": "its reference may be handed on "
    "there before it is created (home-before-creation)",
    "cargo with a tensor and its memory without history (parts.kind)": "they share it there "
    "(views-arrive-unrelated)",
    "updates that leave out a parameter (updates.skips)": "what an earlier step has left is applied "
    "there again (stale-gradient-is-applied)",
    "updates of parameters that may not be there yet (updates.waits)": "a reference may be handed "
    "on within its owner before it is created (home-before-creation)",
    "chains whose references go on at once (chains.waits)": "a reference may be handed on within "
    "its owner before it is created (home-before-creation)",
}


def draw(
    seed: int | Rescheduled,
    settings: Settings = Settings(),  # noqa: B008 - it never changes
    changes: Changes = NO_CHANGES,
) -> Scenario:
    """The scenario of a seed, but for ``changes``, numbers in [0, 1) by the keys of choices.

    Keys begin with the group that a choice is in: ``program#0``, or the next one if that has one
    worker only and there are faults; ``world#0``; ``failing calls#0``; ``faults#0``. ``run#0``
    is the seed of the run itself. What was drawn with another schedule has that in its note.
    """
    note = ""
    if isinstance(seed, Rescheduled):
        note, changes = str(seed), {**seed.changes, **changes}
        seed = seed.seed
    if settings.groups:
        return _draw_training(seed, settings, changes, note or str(seed))
    choices = KeyedChoices((settings.profile, seed), changes)
    with trusted():
        if settings.profile is not None:
            program, world = _draw_faulty(choices, settings.profile)
        else:
            limits = _DEVICE_LIMITS if settings.device == STAND_IN_NAME else None
            program, world = _draw_plain(choices, settings.plan, limits)
        if settings.engine != "port":
            program = for_compiled(in_one_group(program))
        elif not _raises(world.faults):
            program = choices.group("failing calls", partial(_may_fail, choices, program))
    return Scenario(
        work=program,
        seed=_seed_of_run(seed, changes),
        world=replace(world, device=settings.device),
        engine=settings.engine,
        profile=settings.profile,
        note=note,
    )


def _seed_of_run(seed: int, changes: Changes) -> int:
    run = changes.get(RUN)
    return seed if run is None else int(run * (MAX_SEED + 1))


def _draw_training(seed: int, settings: Settings, changes: Changes, name: str) -> Scenario:
    training = draw_training(seed, changes)
    if settings.profile is not None:
        # PyTorch's autograd fails an assertion of its own where a message of it comes twice, which TensorPipe never does.
        talks = [talk for talk in training.talks if talk.call != "remote gradients"]
        training = replace(training, talks=tuple(talks))
    script = script_of(training, f"groups-{seed}")
    assert script.workers is not None
    choices = KeyedChoices((settings.profile, seed), changes)
    return Scenario(
        work=script,
        seed=_seed_of_run(seed, changes),
        world=_world_of_script(choices, script.workers, settings.profile, settings.plan),
        engine=settings.engine,
        profile=settings.profile,
        note=f"{GROUPS}{name}",
    )


def _may_fail(choices: Choices, program: Program) -> Program:
    failing = choices.chance("any", _FAILING_CALLS)
    return with_failing_calls(choices, program) if failing else program


def _raises(plan: Plan) -> bool:
    """Whether an exception may be raised in a call of which nobody knows: if the function raises,
    its caller's send function stays, and holds up every later pass of the context."""
    return any(isinstance(item, Raise) for item in plan.inner)


def _draw_plain(
    choices: Choices, plan: Plan, limits: Limits | None = None
) -> tuple[Program, World]:
    program = choices.group("program", partial(generate, choices, limits))
    while limits is not None and not _for_stand_in(program):
        program = choices.group("program", partial(generate, choices, limits))
    world = choices.group("world", partial(_draw_world, choices, _LATENCIES))
    if not may_leave_early(program):
        world = replace(world, shut_down_early=False)
    if not plan:
        return program, world
    plan = fitting(plan, program.workers)
    if plan.schedule == FIFO:
        plan = replace(plan, schedule=world.faults.schedule)
    # Exchanges of objects between workers are not run under faults (sim/programs/faults.py).
    return under_faults(program), World(latency=world.latency, faults=plan)


def may_leave_early(program: Program) -> bool:
    """Whether workers may shut down while others are at work: not beside a story that is alone, since those
    without it have no steps, and would leave at once."""
    stories = [story for _, _, step in program.steps for story in step.stories]
    return not any(story.kind in ALONE for story in stories)


def _for_stand_in(program: Program) -> bool:
    """Whether the stand-in device can do all that a program does: it has no sparse tensors, and no
    passes of torch's own engine (hooks of kind retain_grad are called through it), which runs a
    device's nodes on a thread of its own."""
    kinds = {op.kind for _, _, step in program.steps for op in step.ops}
    hooks: set[str] = {str(hook) for leaf in program.leaves for hook in leaf.hooks}
    hooks |= {str(hook) for _, _, step in program.steps for op in step.ops for hook in op.hooks}
    return not kinds & _NOT_ON_STAND_IN and not hooks & _ENGINE_HOOKS


def _draw_world(choices: Choices, latencies: tuple[str, ...]) -> World:
    order: Order = choices.choice("order", _ORDERS)
    return World(
        latency=choices.choice("latency", latencies),
        faults=Plan(schedule=Schedule(order=order)),
        shut_down_early=choices.chance("shut down early", _SHUT_DOWN_EARLY),
        skip_handshakes=choices.chance("skip handshakes", _SKIP_HANDSHAKES),
    )


def _draw_world_of_script(choices: Choices) -> World:
    world = _draw_world(choices, _LATENCIES)
    if choices.chance("slow network", _SLOW):
        world = replace(world, latency=_SLOW_LATENCY)
    if choices.chance("busy", _BUSY):
        world = replace(world, faults=Plan(schedule=Schedule(order="busy")))
    return world


def _draw_faulty(choices: KeyedChoices, profile: Profile) -> tuple[Program, World]:
    restarts = profile != "mild" and choices.chance("restarts", _RESTARTS)
    # Programs of several workers only: with a single one hardly any fault has an effect.
    while True:
        program = choices.group("program", partial(_draw_small, choices, restarts))
        if program.workers > 1:
            break
    timeouts_s = _TIMEOUTS_S if profile != "mild" else _LONG_TIMEOUTS_S
    world = choices.group("world", partial(_draw_faulty_world, choices, timeouts_s))
    plan = draw_faults(
        profile,
        choices,
        program.workers,
        world.rpc_timeout_s or DEFAULT_RPC_TIMEOUT_S,
        least_pool=_threads_needed(program),
        restarts=restarts,
    )
    return program, replace(world, faults=plan)


def _draw_small(choices: Choices, restarts: bool) -> Program:
    most = choices.choice("most workers", _WORKERS)
    limits = _WITH_RESTARTS if restarts else _LIMITS._replace(workers=most)
    program = _leaving_in_time(under_faults(generate(choices, limits)))
    return _retrying(program) if choices.chance("retry", 0.5) or restarts else program


def _draw_faulty_world(choices: Choices, timeouts_s: tuple[float, ...]) -> World:
    return World(
        latency=choices.choice("latency", _FAULTY_LATENCIES),
        rpc_timeout_s=choices.choice("timeout", timeouts_s),
    )


def draw_faults(
    profile: Profile,
    choices: KeyedChoices | int,
    workers: int,
    timeout_s: float,
    *,
    least_pool: int = 3,
    restarts: bool = False,
) -> Plan:
    """The faults of a seed, or of choices that are under way: for its program, or for a script.

    ``timeout_s``: how long calls may take, in seconds of virtual time. ``restarts``: they are about
    what others keep of a process that ends, and nothing else.
    """
    if isinstance(choices, int):
        choices = KeyedChoices((profile, choices))

    def plan() -> Plan:
        drawing = Drawing(profile, choices, workers, timeout_s, least_pool=least_pool)
        return drawing.restarts() if restarts else drawing.draw()

    return choices.group("faults", plan)


def draw_world_of_script(
    seed: int, workers: int, profile: Profile | None, plan: Plan = NO_FAULTS
) -> World:
    """The world in which a campaign runs a script with a seed: latencies, the order of tasks, and
    the faults of a profile; or those of ``plan``, whose order it keeps if it has one."""
    return _world_of_script(KeyedChoices((profile, seed)), workers, profile, plan)


def _world_of_script(
    choices: KeyedChoices, workers: int, profile: Profile | None, plan: Plan
) -> World:
    if profile is None:
        world = choices.group("world", partial(_draw_world_of_script, choices))
        if plan.schedule == FIFO:
            plan = replace(plan, schedule=world.faults.schedule)
        return World(latency=world.latency, faults=plan)
    timeouts_s = (DEFAULT_RPC_TIMEOUT_S,)  # a script says itself how long its calls may take
    world = choices.group("world", partial(_draw_faulty_world, choices, timeouts_s))
    faults = draw_faults(profile, choices, workers, DEFAULT_RPC_TIMEOUT_S)
    return World(latency=world.latency, faults=faults)


def _threads_needed(program: Program) -> int:
    """With how many threads an agent can serve the program, whatever waits in them for whom."""
    if any(field != "stories" for _, _, step in program.steps for field, _, _ in beside(step)):
        return max(3, program.most_handlers)
    return 3 if _waits_in_threads(program) else 1


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


def _leaving_in_time(program: Program) -> Program:
    """Nobody waits without a limit for workers that may have ended."""
    endings = tuple(
        replace(ending, timeout_s=ending.timeout_s or _LEAVE_S) for ending in program.endings
    )
    return replace(program, endings=endings)


def _retrying(program: Program) -> Program:
    """Every step is tried again in a fresh context if it fails."""
    return program.with_steps(lambda step: replace(step, retry=True))


def expanded(scenario: Scenario, names: Mapping[int, str] | None = None) -> list[tuple[str, str]]:
    """Everything that a scenario has drawn, as names and values: for reports. ``names``: see
    :func:`expanded_plan`."""
    program, plan, world = scenario.program, scenario.faults, scenario.world
    if program is None:
        rows = [("seed", str(scenario.seed)), ("profile", scenario.profile or "none")]
        training = None if scenario.script is None else training_in(scenario.script.text)
        if training is not None:
            rows += [
                (name, str(value)) for name, value in asdict(training).items() if name != "seed"
            ]
        return [*rows, ("latency", world.latency), *expanded_plan(plan, names)]
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
    return rows + expanded_plan(plan, names)


def expanded_plan(plan: Plan, names: Mapping[int, str] | None = None) -> list[tuple[str, str]]:
    """The order of a plan and its items, as names and values: of an item its place in the plan and its fields, or,
    with the ``names`` of workers, what it does in words."""
    schedule = plan.schedule
    order: str = schedule.order
    if order == "pct":
        order += f", depth {schedule.depth} within {schedule.steps} steps"
    rows = [("order", order)]
    if not len(plan):
        return rows
    heal = "never" if plan.heal_s is None else f"after {plan.heal_s:g} s"
    rows.append(("faults end", heal))
    if names is not None:
        said = [item.told(names) for _, _, item in plan.items()]
        return [*rows, *zip(["faults", *[""] * (len(said) - 1)], said, strict=True)]
    for group, at, item in plan.items():
        values = {
            field.name: getattr(item, field.name)
            for field in fields(item)
            if field.name not in ("kind", "id") and getattr(item, field.name) != field.default
        }
        text = ", ".join(f"{name}={value}" for name, value in values.items())
        rows.append((f"{group}[{at}]", f"{item.kind} {text}".rstrip()))
    return rows
