"""What must come of a scenario that was saved, and whether it does."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from squall.model.events.run import Run, Violation
from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios.replay import replay
from squall.sim.search.replay_with_mutant import again

#: the property of what does not come to what its file says
SAVED = "saved"
#: real seconds that a run may take
_RUN_S = 60.0


class Replayed(NamedTuple):
    """``violations``: what is not as it must be. ``digest`` and ``events``: of the first run."""

    violations: tuple[Violation, ...]
    digest: str
    events: int


def replayed(saved: Scenario, *, varies: bool = False) -> Replayed:
    """Run it twice, with the same digest, unless its runs vary. For the main thread.

    The port is squall's own: what a file of it has shown is mended, and everything holds; a bug that it
    names is planted once more, and must be noticed in the same way. What PyTorch's engine has shown
    is PyTorch's, and stays: it shows the same again, with the digest that the file has. Raises what
    a replay raises.
    """
    own = saved.engine == "port"
    expected = Expected() if own else saved.expected
    first, second = (replay(replace(saved, expected=expected), seconds=_RUN_S) for _ in range(2))
    wrong: list[Violation] = []
    if not varies and first.digest != second.digest:
        wrong.append(Violation(SAVED, "another run", first.digest, second.digest))
    if own or expected.outcome == "ok":
        wrong += [violation for run in (first, second) for violation in run.violations]
        if expected.digest not in (None, first.digest):
            wrong.append(Violation(SAVED, "another digest", str(expected.digest), first.digest))
    else:
        wrong += [
            each for run in (first, second) for each in _missing(run, expected, varies=varies)
        ]
    if own and saved.expected.mutant is not None:
        wrong += _missing(again(saved, seconds=_RUN_S), saved.expected)
    return Replayed(tuple(wrong), first.digest, len(first.records))


def _missing(run: Run, expected: Expected, *, varies: bool = False) -> list[Violation]:
    """What was to be shown, if it was not. Of runs that vary the property of the first counts."""
    shown = [(each.property, each.what) for each in run.violations]
    if (expected.property, expected.what) in shown:
        return []
    if varies and shown and shown[0][0] == expected.property:
        return []
    seen = ", ".join(": ".join(each) for each in shown) or "everything holds"
    return [Violation(SAVED, "it does not show", f"{expected.property}: {expected.what}", seen)]
