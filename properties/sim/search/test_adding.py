"""A new planted bug is one new entry in a module of planted/."""

from __future__ import annotations

import json
from pathlib import Path

from squall.properties.support.copied_tree import copied_tree, squall_of

BUG = """
    Mutant(
        name="later-gradients-subtracted",
        wrong="the second gradient of a leaf is subtracted from the first",
        place="autograd.accumulate:accumulate_grad",
        old="old += new",
        new="old -= new",
    ),
"""


def test_a_new_planted_bug_is_one_new_entry(tmp_path: Path) -> None:
    package = copied_tree(tmp_path)
    module = package / "sim" / "search" / "mutants" / "planted" / "passes.py"
    before, opening, after = module.read_text().partition("\nMUTANTS = (")
    assert opening
    module.write_text(before + opening + BUG + after)
    done = squall_of(package, "mutants", "later-gradients-subtracted", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (mutant,) = json.loads(done.stdout)["mutants"]
    assert mutant["killed"], mutant
