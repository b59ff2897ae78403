"""What another interpreter does for a campaign: it says what it is, or judges seeds.

python -m squall.sim.campaigns.other_interpreter                                          # {"python": …, "torch": …, "code": …}
python -m squall.sim.campaigns.other_interpreter '{"first": 0, "stop": 9, "profile": null}'  # a row a line
"""

from __future__ import annotations

import json
import platform
import sys

import torch

from squall.sim.campaigns.parts.part import Part
from squall.sim.campaigns.row import dumped
from squall.sim.search.verify_fix import code_stamp


def main(words: list[str]) -> None:
    """``words``: of the command line, without the first."""
    if not words:
        # Squall's own code alone: torch may differ, which is what this is for.
        said = {"python": platform.python_version(), "code": code_stamp("")}
        print(json.dumps({**said, "torch": torch.__version__}))
        return
    asked = json.loads(words[0])
    torch.set_num_threads(1)
    part = Part("there", range(asked["first"], asked["stop"]), asked["profile"])
    for row in part.rows(part.seeds, lambda: None):
        print(dumped(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
