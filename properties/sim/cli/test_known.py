"""A failure of PyTorch's engine is named where a rule of ``squall diff`` knows it."""

from __future__ import annotations

import json

from squall.properties.support.commands import squall
from squall.sim.search.draw import Settings, draw


def test_a_campaign_names_what_is_known_of_pytorch(compiled_engine: None) -> None:
    seed = seed_with_alone("views of one gradient")
    seeds = f"{seed}:{seed + 1}"
    done = squall("fuzz", "--engine", "torch", "--seeds", seeds, "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1, "it is a defect all the same"
    assert told["corpus"] == 2, "the stories of the corpus are played, and hold"
    known = {failure["what"]: failure["known"] for failure in told["failures"]}
    assert known == {"a story: views of one gradient": ["gradient-stolen"]}


def seed_with_alone(kind: str) -> int:
    """The first seed whose program has a story of this kind, and little else."""
    for seed in range(10_000):
        program = draw(seed, Settings(engine="torch")).program
        assert program is not None
        kinds = [story.kind for _, _, step in program.steps for story in step.stories]
        if kinds == [kind] and sum(len(step.ops) for _, _, step in program.steps) < 4:
            return seed
    raise AssertionError(f"no program of 10,000 has the story {kind!r}")
