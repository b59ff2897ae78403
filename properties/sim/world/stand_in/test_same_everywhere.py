"""A scenario on the stand-in has the same digest in every process."""

import os
import subprocess
import sys

_CODE = """
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings, draw
from squall.sim.scenarios.play import play

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


_AFTER_THE_CPU = """
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings, draw
from squall.sim.search.judge import judge

assert judge(0).ok
with campaign_settings("stand-in"):
    print(judge(0, Settings(device="stand-in")).violations)
"""


def test_the_first_scenario_of_a_process_that_has_run_others_holds():
    """What PyTorch imports for it keeps no frame of it."""
    told = subprocess.run(
        [sys.executable, "-c", _AFTER_THE_CPU], capture_output=True, text=True, check=True
    )
    assert told.stdout == "()\n"
