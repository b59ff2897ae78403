"""A new engine is one new file: commands, campaigns and scenario files find it."""

from __future__ import annotations

import json
from pathlib import Path

from squall.properties.support.copied_tree import copied_tree, squall_of

ENGINE = '''
"""Squall's own engine, on a network without latency."""

from squall.sim.engines.port import Port


class Instant(Port):
    """Squall's own engine, on a network without latency."""

    name = "instant"

    def run(self, scenario, *, stdout=None, stderr=None):
        run = super().run(scenario.in_world(latency="0"), stdout=stdout, stderr=stderr)
        run.engine = self.name
        return run


ENGINE = Instant()
'''


def test_a_new_engine_is_one_new_file(tmp_path: Path) -> None:
    package = copied_tree(tmp_path)
    (package / "sim" / "engines" / "instant.py").write_text(ENGINE)
    fuzz = squall_of(package, "fuzz", "--seeds", "0:4", "--engine", "instant", "--json")
    assert fuzz.returncode == 0, fuzz.stdout + fuzz.stderr
    assert json.loads(fuzz.stdout)["engine"] == "instant"
    assert json.loads(fuzz.stdout)["scenarios"] == 4

    words = ("replay", "3", "--engine", "instant", "--json", "--save", "three.json")
    replay = squall_of(package, *words)
    assert replay.returncode == 0, replay.stdout + replay.stderr
    assert json.loads((tmp_path / "three.json").read_text())["engine"] == "instant"
    again = json.loads(squall_of(package, "replay", "three.json", "--json").stdout)
    assert (again["engine"], again["digest_matches"]) == ("instant", True)

    unknown = squall_of(package, "fuzz", "--seeds", "0:1", "--engine", "slow")
    assert unknown.returncode == 2
    assert "instant" in unknown.stderr
