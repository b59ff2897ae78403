"""An engine, and a planted bug: one new file each, and nothing else changes.

The tests that add an operation, a check and a story are in model/, those that add a kind of fault
in sim/faults/, and a command in sim/cli/.
"""

from __future__ import annotations

import json
from pathlib import Path

from squall.properties.support.copied import copied_package, run_copy
from squall.sim.search.draw import Settings, draw

ENGINE = '''
"""The port under another name."""

from squall.sim.engines.port import Port


class Counting(Port):
    name = "counting"

    def run(self, scenario, *, stdout=None, stderr=None):
        run = super().run(scenario, stdout=stdout, stderr=stderr)
        run.engine = self.name
        return run


ENGINE = Counting()
'''

PLANTED = '''
"""Bugs of contexts."""

from squall.sim.search.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="gradients-twice",
        wrong="what reaches a leaf is added twice",
        place="autograd.context:DistAutogradContext.accumulate_grad",
        old="accumulate_grad(self._grads, variable, grad)",
        new="accumulate_grad(self._grads, variable, [2 * grad[0]])",
    ),
)
'''


def test_an_engine_is_one_new_file(tmp_path: Path) -> None:
    package = copied_package(tmp_path)
    (package / "sim/engines/counting.py").write_text(ENGINE, encoding="utf-8")
    # one that has nothing that is drawn for the port alone
    elsewhere = Settings(engine="torch")
    seed = next(seed for seed in range(100) if draw(seed).work == draw(seed, elsewhere).work)
    words = ("-m", "squall", "replay", str(seed), "--engine")
    done = run_copy(tmp_path, *words, "counting", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["engine"], told["outcome"]) == ("counting", "ok")
    assert (
        told["digest"] == json.loads(run_copy(tmp_path, *words, "port", "--json").stdout)["digest"]
    )
    campaign = run_copy(
        tmp_path, "-m", "squall", "fuzz", "--engine", "counting", "--seeds", "0:5", "--json"
    )
    assert json.loads(campaign.stdout)["scenarios"] == 5
    assert "'counting' or 'port' or 'torch'" in run_copy(tmp_path, "-c", _WRONG).stdout


_WRONG = """
from squall.sim.scenarios.file import load_scenario
try:
    load_scenario('{"version": 2, "engine": "steam", "script": {"path": "a.py", "text": ""}}')
except ValueError as error:
    print(error)
"""


def test_a_planted_bug_is_one_new_file(tmp_path: Path) -> None:
    package = copied_package(tmp_path)
    planted = package / "properties/planted"
    planted.mkdir(parents=True)
    (planted / "contexts.py").write_text(PLANTED, encoding="utf-8")
    done = run_copy(tmp_path, "-m", "squall", "mutants", "gradients-twice", "--json")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["mutants"]
    assert (result["name"], result["killed"]) == ("gradients-twice", True)
