"""The generator: all it draws can be run, it reaches everything, and Hypothesis can shrink it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, Phase, find, settings

from squall.model.coverage.features import feature_names, features
from squall.model.generate.generator import generate
from squall.model.generate.keyed import KeyedChoices
from squall.model.generate.profiles import Limits
from squall.model.one_process.flow import forecast
from squall.model.one_process.interpreter import interpret
from squall.model.one_process.joint_graph import ACCUMULATE_NAME
from squall.model.one_process.shape_graph import Graph
from squall.model.program.compare import to_dense
from squall.model.program.operations import KINDS, compute, initial_values
from squall.model.program.program import Input, Leaf, Op, Program, Step, source
from squall.model.program.sizes import numel, size
from squall.properties.strategies import programs
from squall.sim.search.corpus import corpus

SEEDS = 4000
LARGEST = 2**53

#: each feature must be in at least so many programs of SEEDS
RARELY = 10


def seeded(seed: int, limits: Limits | None = None) -> Program:
    return generate(KeyedChoices(seed), limits)


def test_programs_run_in_one_process_and_end_as_forecast() -> None:
    for seed in range(SEEDS):
        program = seeded(seed)
        outcome = interpret(program)
        for trainer, number, step in program.steps:
            promised = forecast(program, trainer, number)
            got = outcome.steps[trainer, number]
            first = got.first_error if step.retry else got.error
            assert (first is not None) == bool(promised.errors), seed
            assert first is None or first in promised.errors
            if step.retry:
                assert got.error is None
            if got.error is None:
                ended = len(got.passes) + len(got.failed)
                assert ended == sum(b.times for b in step.backwards)


def test_exact_programs_stay_below_the_largest_exact_integer() -> None:
    largest = 0.0
    for seed in range(SEEDS):
        program = seeded(seed)
        if program.mode != "exact":
            continue
        outcome = interpret(program)
        values = [*outcome.leaves, *(v for kept in outcome.kept.values() for v in kept)]
        for step in outcome.steps.values():
            values += [*step.roots.values(), *(g for grads in step.passes for g in grads.values())]
        for value in map(to_dense, values):
            assert torch.equal(value, value.round())
            largest = max([largest, *value.abs().flatten().tolist()])
    assert 1000 < largest < LARGEST


def test_only_programs_meant_to_wait_have_send_functions_that_are_never_fed() -> None:
    waiting = 0
    for seed in range(SEEDS):
        program = seeded(seed, Limits(unused=False))
        assert not any(forecast(program, t, s).unfed for t, s, _ in program.steps), seed
        program = seeded(seed)
        waiting += any(forecast(program, t, s).unfed for t, s, _ in program.steps)
    assert waiting > RARELY


def test_every_feature_is_reached() -> None:
    reached: Counter[str] = Counter()
    for seed in range(SEEDS):
        reached.update(name for name, count in features(seeded(seed)).items() if count)
    rare = {name: reached[name] for name in feature_names() if reached[name] < RARELY}
    for scenario in corpus().values():
        assert scenario.program is not None
        found = features(scenario.program)
        rare = {name: count for name, count in rare.items() if not found[name]}
    assert rare == {}


def test_the_same_seed_gives_the_same_program() -> None:
    for seed in range(50):
        assert seeded(seed) == seeded(seed)
    assert len({seeded(seed) for seed in range(200)}) > 190


@pytest.mark.parametrize("kind", list(KINDS))
def test_sizes_are_what_torch_makes(kind: str) -> None:
    """Shapes are equal, and no element is larger than its bound."""
    spec = KINDS[kind]
    shapes = [(2, 3), (3, 2), (3,), (), (1,), (0,), (2, 1), (0, 2)]
    if spec.takes_table:
        shapes = [(3, 2), (2, 2)]
    op = Op(kind=kind, inputs=(Input(1),) * spec.least, worker=0, factor=3)
    for number, a in enumerate(shapes):
        for b in shapes if spec.least == 2 else [a]:
            inputs = [
                initial_values(leaf, "exact") for leaf in _leaves((a, b)[: spec.least], seed=number)
            ]
            out = compute(op, inputs)
            outs = out if isinstance(out, tuple) else (out,)
            bounds = spec.sizes(3, [size(tuple(x.shape), 3.0) for x in inputs])
            for value, bound in zip(outs, bounds, strict=True):
                assert tuple(value.shape) == bound.shape
                assert value.numel() == numel(bound.shape) == bound.elements
                assert not value.numel() or float(value.detach().abs().max()) <= bound.most


def _leaves(shapes: tuple[tuple[int, ...], ...], seed: int) -> list[Leaf]:
    return [Leaf(owner=0, shape=shape, seed=seed + n) for n, shape in enumerate(shapes)]


# -- shrinking ------------------------------------------------------------------------------------

# Without Phase.explain, for which every line that runs would be traced from the first failure on, and
# the lines of each example kept.
QUICKLY = settings(
    max_examples=1000,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    phases=[Phase.generate, Phase.shrink],
)


def smallest(predicate: Callable[[Program], bool]) -> Program:
    """What Hypothesis shrinks to, without sleeps and stories; the same every time."""
    limits = Limits(sleeps=False, stories=False)
    return find(programs(limits), predicate, settings=QUICKLY, random=random.Random(4))


def makers(program: Program, step: Step, index: int) -> set[int]:
    """On which workers the inputs of an operation were computed."""
    sources = [source(program, index, input) for input in step.ops[index].inputs]
    return {step.ops[number].worker for is_leaf, number in sources if not is_leaf}


def test_nothing_wrong_shrinks_to_one_operation_on_one_worker() -> None:
    program = smallest(lambda _: True)
    assert (program.workers, len(program.trainers), len(program.leaves)) == (1, 1, 1)
    (step,) = program.trainers[0].steps
    assert [op.kind for op in step.ops] == ["scale", "total"]
    assert all(op.call == "local" for op in step.ops)


def test_a_fan_in_from_two_workers_shrinks_to_the_smallest() -> None:
    def fans_in(program: Program) -> bool:
        """Some value is made of what two other workers made."""
        return any(
            len(makers(program, step, index) - {op.worker}) > 1
            for _, _, step in program.steps
            for index, op in enumerate(step.ops)
        )

    program = smallest(fans_in)
    assert program.workers == 3
    assert len(program.trainers) == 1 and len(program.leaves) == 1
    (step,) = program.trainers[0].steps
    # One on each of two workers and the sum of both; at most one more is left.
    assert len(step.ops) <= 4
    assert step.ops[-1].kind == "total"


def test_a_planted_dependency_bug_shrinks_to_its_smallest_program() -> None:
    def counted_wrongly(program: Program) -> bool:
        """As an engine would see that counts a second edge between two nodes only where no
        third one leads to the same node."""
        return any(
            has_mixed_edges(graph)
            for step in interpret(program).steps.values()
            for graph in step.graphs
        )

    program = smallest(counted_wrongly)
    (step,) = program.trainers[0].steps
    # What is used, what uses it twice, and the sum, which uses it once or what does.
    assert len(step.ops) in (3, 4)
    (graph,) = interpret(program).steps[0, 0].graphs
    assert len(graph.nodes) <= 7
    assert (program.workers, len(program.trainers)) == (1, 1)


def has_mixed_edges(graph: Graph) -> bool:
    parents: dict[int, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        for edge in node.edges:
            if edge is not None and graph.nodes[edge[0]].name != ACCUMULATE_NAME:
                parents.setdefault(edge[0], []).append(number)
    return any(1 < len(set(nodes)) < len(nodes) for nodes in parents.values())
