"""What exploring small worlds would need to show the planted bugs that it does not show today.

By the name of the bug; docs/explore.md has it. Random search finds these, unless they are marked as
unseen (:attr:`~squall.sim.search.mutants.mutant.Mutant.unseen`).
"""

from __future__ import annotations

BOUNDS: dict[str, str] = {}
