"""A failure of PyTorch's engine is named where a rule of ``squall diff`` knows it."""

from __future__ import annotations

import json

from squall.properties.support.commands import squall


def test_a_campaign_names_what_is_known_of_pytorch(compiled_engine: None) -> None:
    done = squall("fuzz", "--engine", "torch", "--seeds", "23:25", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1, "it is a defect all the same"
    assert told["corpus"] == 2, "the stories of the corpus are played, and hold"
    known = {failure["what"]: failure["known"] for failure in told["failures"]}
    assert known == {
        "a story: views of one gradient": ["gradient-stolen"],
        "a story: optimizer by grad": ["optimizer-keeps-grad"],
    }
