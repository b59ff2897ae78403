"""Acts: what they come to on workers is what they come to in one process, and what is written here.

The same cases are done by PyTorch's compiled engine: what they come to is PyTorch's, not ours.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from squall.model.checks.registry import check
from squall.model.generate.acts import draw_acts
from squall.model.generate.keyed import KeyedChoices
from squall.model.program.acts.act import Act, depth, every
from squall.model.program.acts.check import check_acts
from squall.model.program.acts.expected import ActError, told_alone
from squall.model.program.acts.kind import kinds, outline
from squall.model.program.check import ProgramError, check_program
from squall.model.program.program import Leaf, Program, Step, Trainer
from squall.model.program.stories import ACTS, Story, as_line
from squall.model.program.variants import under_faults
from squall.model.shrink.cuts import cuts
from squall.model.shrink.simplifications import simplifications, size
from squall.properties.strategies import HypothesisChoices
from squall.sim.export.scenario import export
from squall.sim.faults.plan import Drop, Plan
from squall.sim.scenario import Scenario
from squall.sim.scenarios.play import play
from squall.sim.search.draw import draw

Acts = tuple[Act, ...]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)  # what callees say of errors that are meant
    yield
    logging.disable(logging.NOTSET)


def act(kind: str, *acts: Act, **fields: object) -> Act:
    return Act(kind=kind, acts=acts, **fields)  # type: ignore[arg-type]


def wait(seconds: float) -> Act:
    return act("wait", seconds=seconds)


def told(*acts: Act) -> Act:
    return act("told", *acts)


FAIL = act("fail")
FETCHED = told(act("fetched"))
TWICE = act("times", factor=2)
PASS = told(act("pass"))
FREEING = told(act("pass", retain_graph=False))
PLANTED, THERE = "RuntimeError: planted", "StoryError: planted"
LATE = {ms: f"RuntimeError: timed out after {ms} ms" for ms in (500, 1500)}
NEVER_MADE = "RuntimeError: creation timed out"
FREED, HAS_ONE = "RuntimeError: freed", "RuntimeError: has a context"

#: by name: acts of worker 0, of two, and the lines that they tell
CASES: dict[str, tuple[Acts, list[str]]] = {
    "an error ends its list": ((told(), FAIL, told()), ["well on 0", THERE]),
    "a call keeps the text of an error": (
        (told(act("sync", FAIL, worker=1)), told(act("async", FAIL, worker=1))),
        [PLANTED, PLANTED],
    ),
    "a fetch keeps its type": (
        (act("created", FAIL, worker=1, then=(FETCHED,)), act("created", FAIL, then=(FETCHED,))),
        [THERE, THERE],
    ),
    "what a callee told comes with its result": ((act("sync", told(), worker=1),), ["well on 1"]),
    "a limit ends a call in time": (
        (told(act("sync", wait(2), worker=1, limit_s=1.5)), wait(1), told()),
        [LATE[1500], "well on 0"],
    ),
    "a limit of 0 is none": ((told(act("sync", wait(2), worker=1, limit_s=0.0)),), ["well on 0"]),
    "the limit of an inner call is its own": (
        (told(act("sync", told(act("sync", wait(2), limit_s=0.5)), worker=1, limit_s=1.5)),),
        [LATE[500], "well on 0"],
    ),
    "time goes on while a call is under way": (
        (
            told(
                act("sync", act("async", wait(2), worker=0, then=(wait(2),)), worker=1, limit_s=2.5)
            ),
        ),
        ["well on 0"],
    ),
    "callbacks come one after the other": (
        (told(act("chained", told(), worker=1, times=2, then=(told(wait(1)),))),),
        ["well on 1", "well on 0", "well on 0", "well on 0"],
    ),
    "a callback that raises": (
        (told(act("chained", worker=1, times=2, then=(FAIL,))),),
        [PLANTED],
    ),
    "a callback that calls": (
        (act("chained", worker=1, then=(act("sync", told(), worker=1),)),),
        ["well on 1"],
    ),
    "a callback of a call that was given up": (
        (told(act("chained", wait(2), worker=1, limit_s=0.5, then=(told(),))),),
        [LATE[500]],
    ),
    "a call that nobody waits for": (
        (act("forgotten", FAIL, worker=1), act("forgotten", wait(3), worker=1), told()),
        ["well on 0"],
    ),
    "two creations that take too long": (
        (
            act(
                "created",
                wait(2),
                worker=1,
                limit_s=0.5,
                then=(
                    act("created", wait(2), worker=1, limit_s=0.5, then=(wait(1), FETCHED)),
                    FETCHED,
                ),
            ),
        ),
        [NEVER_MADE, NEVER_MADE],
    ),
    "a creation that took too long cannot be passed on": (
        (
            act(
                "created",
                wait(2),
                worker=1,
                limit_s=0.5,
                then=(wait(1), told(act("passed on", worker=1))),
            ),
        ),
        [NEVER_MADE],
    ),
    "what was passed on before is good": (
        (
            act(
                "created",
                told(wait(2)),
                worker=1,
                limit_s=0.5,
                then=(act("passed on", wait(1), act("fetched"), worker=0), FETCHED),
            ),
        ),
        ["well on 1", NEVER_MADE],
    ),
    "a fetch that has begun goes on": (
        (act("created", told(wait(2)), worker=1, limit_s=0.5, then=(FETCHED,)),),
        ["well on 1", "well on 0"],
    ),
    "a fetch has a limit of its own": (
        (
            act(
                "created",
                told(wait(2)),
                worker=1,
                then=(told(act("fetched", limit_s=0.5)), FETCHED),
            ),
        ),
        [LATE[500], "well on 1", "well on 0"],
    ),
    "an owner waits for its own value without a limit": (
        (act("created", told(wait(2)), worker=0, then=(told(act("fetched", limit_s=0.5)),)),),
        ["well on 0", "well on 0"],
    ),
    "a creation on oneself that took too long": (
        (
            act(
                "created",
                wait(2),
                worker=0,
                limit_s=0.5,
                then=(wait(1), FETCHED, told(act("passed on", worker=1))),
            ),
        ),
        [NEVER_MADE, NEVER_MADE],
    ),
    "a reference that is dropped at once": (
        (act("created", wait(2), worker=1), act("created", FAIL, worker=1, limit_s=0.5), told()),
        ["well on 0"],
    ),
    "a proxy in each of its ways": (
        tuple(
            act(
                "created",
                wait(1),
                worker=to,
                then=tuple(
                    told(act("asked", *inner, how=how))
                    for how in ("sync", "async", "remote")
                    for inner in ((told(),), (FAIL,))
                ),
            )
            for to in (0, 1)
        ),
        [
            line
            for to in (0, 1)
            for error in (PLANTED, PLANTED, THERE)
            for line in (f"well on {to}", "well on 0", error)
        ],
    ),
    "a proxy has a limit": (
        (act("created", worker=1, then=(told(act("asked", wait(2), limit_s=0.5)), told())),),
        [LATE[500], "well on 0"],
    ),
    "a proxy of what is not there yet": (
        (
            act(
                "created",
                wait(2),
                worker=1,
                then=(told(act("asked", limit_s=0.5)), wait(1), told(act("asked", limit_s=1.5))),
            ),
        ),
        [LATE[500], "well on 0"],
    ),
    "a future that is completed later": (
        (
            told(act("later", told(wait(1)), seconds=1.0, worker=1)),
            told(act("later", told(wait(1)), seconds=1.0, worker=1, limit_s=1.5)),
        ),
        ["well on 1", "well on 0", LATE[1500]],
    ),
    "a future that fails later": (
        (told(act("later", FAIL, seconds=1.0, worker=1)),),
        [PLANTED],
    ),
    "a context that nothing uses": ((act("context"),), ["gradient none"]),
    "passes add up": (
        (act("context", TWICE, PASS, TWICE, PASS),),
        ["well on 0"] * 2 + ["gradient 6"],
    ),
    "a tensor that goes to and fro": (
        (
            act(
                "context",
                *(
                    act("carried", TWICE, act("carried", TWICE), worker=1, how=how)
                    for how in ("sync", "async", "remote")
                ),
                PASS,
            ),
        ),
        ["well on 0", "gradient 64"],
    ),
    "a pass that another worker starts": (
        (act("context", act("carried", TWICE, PASS, TWICE, worker=1), PASS),),
        ["well on 1", "well on 0", "gradient 6"],
    ),
    "a pass after one that failed elsewhere": (
        (
            act(
                "context",
                act("carried", TWICE, act("hooked", FAIL, times=2), TWICE, worker=1),
                PASS,
                PASS,
                PASS,
            ),
        ),
        [PLANTED, PLANTED, "well on 0", "gradient 4"],
    ),
    "hooks that wait and call": (
        (
            act(
                "context",
                act(
                    "carried",
                    act("hooked", wait(1), told(act("sync", FAIL, worker=0)), times=3),
                    worker=1,
                ),
                PASS,
                PASS,
            ),
        ),
        ["well on 0", "well on 0", "gradient 2", PLANTED, PLANTED],
    ),
    "hooks of one tensor, and of two": (
        (
            act(
                "context",
                act("hooked", told(), times=3),
                act("hooked", FAIL),
                TWICE,
                act("hooked", FAIL, times=2),
                PASS,
                PASS,
                PASS,
                PASS,
            ),
        ),
        [PLANTED, PLANTED, PLANTED, "well on 0", "gradient 2", "well on 0", "well on 0"],
    ),
    "a graph that is freed": (
        (act("context", act("carried", TWICE, worker=1), FREEING, PASS, PASS),),
        ["well on 0", FREED, FREED, "gradient 2"],
    ),
    "a part of a graph is freed by a pass that fails behind it": (
        (act("context", act("hooked", FAIL), act("carried", TWICE, worker=1), FREEING, PASS),),
        [PLANTED, FREED, "gradient none"],
    ),
    "a task has one context": (
        (
            act(
                "context",
                told(act("context")),
                told(act("sync", act("context"), worker=1)),
                told(act("created", act("context"), worker=1, then=(act("fetched"),))),
            ),
        ),
        [HAS_ONE] * 3 + ["gradient none"],
    ),
    "contexts on both workers at a time": (
        (
            act(
                "async",
                act("context", act("carried", TWICE, worker=0), wait(1), PASS),
                worker=1,
                then=(act("context", act("carried", TWICE, wait(1), worker=1), PASS),),
            ),
        ),
        ["well on 0", "gradient 2", "well on 1", "gradient 2"],
    ),
}


def program_of(acts: Acts, workers: int = 2) -> Program:
    story = Story(kind=ACTS, worker=0, acts=acts)
    return Program(
        workers=workers,
        leaves=(Leaf(owner=0, shape=()),),
        trainers=(Trainer(worker=0, steps=(Step(ops=(), stories=(story,)),)),),
    )


def line_of(acts: Acts, engine: str, workers: int = 2) -> str:
    """What they tell on a worker. Asserts that all properties hold."""
    scenario = Scenario(work=program_of(acts, workers), seed=3, engine=engine)  # type: ignore[arg-type]
    run = play(scenario)
    assert run.outcomes.got is not None
    assert (run.crash, run.waits) == (None, [])
    if engine == "port":
        assert check(run) == []
    return run.outcomes.got.beside[0, 0, "stories", 0]


@pytest.mark.parametrize("name", CASES)
def test_what_acts_come_to(name: str) -> None:
    acts, lines = CASES[name]
    assert list(told_alone(acts, 0).lines) == lines
    assert line_of(acts, "port") == as_line(lines)


#: cases that meet a defect of PyTorch (docs/findings.md)
DEFECTS = {
    "a proxy of what is not there yet": "failed-type-is-kept",
    "a future that fails later": "late-error-is-a-value",
    "two creations that take too long": "timeout-marks-another-reference",
    "a creation that took too long cannot be passed on": "late-creation-leaks",
    "a part of a graph is freed by a pass that fails behind it": "pass-left-behind",
}


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("compiled_engine")
@pytest.mark.parametrize("name", [name for name in CASES if name not in DEFECTS])
def test_what_acts_come_to_in_pytorch(name: str) -> None:
    acts, lines = CASES[name]
    assert line_of(acts, "torch") == as_line(lines)


@st.composite
def drawn_acts(draw: st.DrawFn) -> tuple[Acts, int]:
    workers = draw(st.integers(1, 3))
    return draw_acts(HypothesisChoices(draw), 0, workers), workers


@settings(max_examples=60)
@given(drawn_acts())
def test_acts_come_to_the_same_on_workers_and_in_one_process(drawn: tuple[Acts, int]) -> None:
    acts, workers = drawn
    assert line_of(acts, "port", workers) == as_line(told_alone(acts, 0).lines)


def test_all_kinds_are_drawn_inside_each_other() -> None:
    pairs = set()
    for seed in range(400):
        acts = draw_acts(KeyedChoices(seed), 0, 3)
        check_acts(acts, 0, 3, "acts")
        for each in every(acts):
            pairs |= {(each.kind, inner.kind) for inner in (*each.acts, *each.then)}
    assert {kind for pair in pairs for kind in pair} == kinds().keys()
    assert len(pairs) > 60


def test_acts_are_drawn_in_campaigns() -> None:
    programs = [draw(seed).work for seed in range(400)]
    stories = [
        s for p in programs if isinstance(p, Program) for _, _, x in p.steps for s in x.stories
    ]
    assert sum(story.kind == ACTS for story in stories) > 10


@pytest.mark.parametrize(
    ("acts", "complaint"),
    [
        ((act("sing"),), "acts[0].kind: 'sing' is no kind of act; there are "),
        ((act("wait", worker=1),), "acts[0].worker: an act of kind 'wait' has none, not 1"),
        ((act("sync", worker=2),), "acts[0].worker: 2 is not one of the 2 workers"),
        ((told(wait(-1)),), "acts[0].acts[0].seconds: -1 is not between 0 and 40"),
        ((told(wait(30), wait(30)),), "acts: they take 60 s, more than 40"),
        ((act("fetched"),), "acts: what comes of them is not certain: there is no reference here"),
        ((TWICE,), "acts: what comes of them is not certain: there is no autograd context here"),
        (
            (told(act("sync", wait(1), worker=1, limit_s=1.0)),),
            "acts: what comes of them is not certain: two things happen at about 1 s",
        ),
        (
            (act("context", told(act("carried", FAIL, worker=1)), PASS),),
            "acts: what comes of them is not certain: a call with the tensor failed",
        ),
        ((told(),) * 41, "acts: there are 41 acts, not at most 40"),
    ],
)
def test_acts_that_make_no_sense(acts: Acts, complaint: str) -> None:
    with pytest.raises(ActError) as caught:
        check_acts(acts, 0, 2, "acts")
    assert str(caught.value).startswith(complaint)
    with pytest.raises(ValueError, match="stories"):
        check_program(program_of(acts))


def test_only_one_kind_of_story_has_acts() -> None:
    with pytest.raises(ProgramError, match="only a story of kind 'acts' has any"):
        Program(
            workers=1,
            leaves=(Leaf(owner=0, shape=()),),
            trainers=(
                Trainer(
                    worker=0,
                    steps=(Step(ops=(), stories=(Story(kind="timeout", worker=0, acts=(FAIL,)),)),),
                ),
            ),
        )


def test_acts_become_simpler() -> None:
    acts = CASES["hooks that wait and call"][0]
    program = program_of(acts)
    smaller = set()
    for simpler in simplifications(program):
        try:
            check_program(simpler)
        except ValueError:
            continue
        assert size(simpler) <= size(program)
        for _, _, step in simpler.steps:
            smaller |= {tuple(each.kind for each in every(story.acts)) for story in step.stories}
    # without the list, without single ones, and with what is inside one in its place
    assert {(), ("context", "told", "pass", "told", "pass")} <= smaller
    assert len(smaller) > 8


def test_acts_go_to_fewer_workers() -> None:
    """An act that calls nobody has no worker that could become another one."""
    acts = (act("sync", wait(1), told(act("sync", worker=1)), worker=2),)
    for smaller in cuts(program_of(acts, 3)):
        check_program(smaller)
        if smaller.workers == 2:
            break
    else:
        pytest.fail("no cut has two workers")


def test_a_script_has_the_outline_of_acts() -> None:
    acts = CASES["hooks that wait and call"][0]
    text = export(Scenario(work=program_of(acts), seed=3), "squall replay 3")
    for line in outline(acts):
        assert f"#   {line}" in text
    assert depth(acts) == 6


def test_acts_go_on_under_faults() -> None:
    """What they come to there is theirs to tell: nothing but errors that say what went wrong."""
    acts = CASES["a call that nobody waits for"][0] + (told(act("sync", worker=1, limit_s=0.5)),)
    lost = Plan(messages=(Drop(types=("PYTHON_CALL",), src=0, dst=1),))
    scenario = Scenario(work=program_of(acts), seed=3).in_world(faults=lost)
    run = play(scenario)
    assert run.outcomes.got is not None and check(run) == []
    assert run.outcomes.got.beside[0, 0, "stories", 0] != as_line(told_alone(acts, 0).lines)


def test_acts_that_could_wait_for_ever_are_left_out_under_faults() -> None:
    patient = (act("sync", worker=1, limit_s=0.0),)
    for acts, stays in ((patient, False), ((act("context"),), False), ((act("sync"),), True)):
        assert bool(under_faults(program_of(acts)).steps[0][2].stories) == stays
    for seed in range(300):
        acts = draw_acts(KeyedChoices(seed), 0, 3, calm=False)
        assert under_faults(program_of(acts, 3)) == program_of(acts, 3)
