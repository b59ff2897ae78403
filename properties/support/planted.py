"""Bugs planted for one test: what a property says of the first scenario that shows one."""

from __future__ import annotations

from squall.model.checks.registry import named_property
from squall.model.events.run import Violation
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import draw, settings_of
from squall.sim.search.mutants.mutant import Mutant

#: scenarios that are tried
_MOST = 150


def first_said(
    property: str, place: str, old: str, new: str, *, faults: str = ""
) -> list[Violation]:
    """What ``property`` says of the first of the campaign's scenarios that breaks it while
    ``old`` stands in ``place`` as ``new``; see :class:`Mutant`. Empty if none does."""
    bug = Mutant(name="planted", place=place, old=old, new=new, wrong="in a test")
    check = named_property(property).check
    settings = settings_of(faults)
    with campaign_settings(), bug.apply():
        for seed in range(_MOST):
            try:
                found = list(check(play(draw(seed, settings))))
            except Exception:  # so broken a run that nobody can judge it
                continue
            if found:
                return found
    return []
