"""A scenario on the stand-in has the same digest in every process."""

import os
import subprocess
import sys

_CODE = """
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings, draw
from squall.sim.search.judge import play

with campaign_settings("stand-in"):
    for seed in range(6):
        print(play(draw(seed, Settings(device="stand-in"))).digest)
"""


def test_a_scenario_has_the_same_digest_in_another_process():
    seen = {
        subprocess.run(
            [sys.executable, "-c", _CODE],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(seen) == 1
    assert len(dict.fromkeys(seen.pop().split())) == 6
