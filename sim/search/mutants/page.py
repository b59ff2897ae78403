"""``python -m squall.sim.search.mutants.page > docs/mutants.md`` writes the page about planted bugs."""

from __future__ import annotations

from collections.abc import Iterator

from squall.sim.search.mutants.mutant import SCHEDULES
from squall.sim.search.mutants.planted import FAMILIES, MUTANTS

HEAD = """\
# Planted bugs

A property that never fails may be true, or blind. So squall plants bugs in its own engine, one at
a time, and looks which property notices. Many of them PyTorch really had: where they are from is
an issue (i…) or a pull request (p…) of pytorch/pytorch.

    squall mutants --list                          # what there is
    squall mutants --jobs 2                        # all that should be noticed
    squall mutants dependency-not-counted          # one of them
    squall mutants NAME --seeds 17:18              # again, the scenario that noticed

A mutant is data (`sim/search/mutants/planted/`): a function of `real/`, a piece of its source that must
be there exactly once, and what stands there instead. It is planted at run time; if the source has
changed so that the piece is not there any more, it says so and is not tried. Each is tried in a
process of its own, so one that hangs (`hang`: a scenario takes more than ten seconds) or ends the
process (`crash`) is noticed too.

What brings a bug out: """

TAIL = """\
The letters say which of these may do. Bugs that only faults bring out (L, E, X, K, Q) are tried
with the faults of `squall fuzz --faults`, all profiles in turn; a timeout needs no fault, since
programs have calls that take too long. Seconds are those of one core. Where the last column has a
reason, nothing that can be seen from outside changes, or not on every machine; these are tried
with `--all`. A mutant that survives and should not have makes `squall mutants` end with exit code
1: then the programs or the properties are too weak, and it is they that have to change.
"""

SEEN = """\
## Which property notices

In one campaign over those that should be noticed all 302 were: in the median after 0.25 s of one
core, eight of them after more than 5 s, the last (`pass-of-anybody-is-earlier`) after 34 s.

First to fail was calls for 116 of them, futures for 49, rrefs for 35, progress for 31, gradients
for 21, contexts for 14, joint_graph for 10, dependencies and execution for 8 each, threads for 5,
recording for 2, errors for one; 2 ended the process. In the scenario that noticed it, only one
property failed for 150 of them: calls 94, progress 15, rrefs 12, futures 11, contexts and gradients
5 each, threads 4, execution, recording and errors one each, and one ended the process. No bug was
noticed by one of these alone:

| property | why |
|---|---|
| dependencies | a wrong count lets nodes run too early or never, so a pass hangs or gradients are wrong; this property says why, and was the first to fail for 8 and failed for one more |
| joint_graph | tensors joined in a wrong way have wrong gradients or none; it was the first to fail for 10 and failed for 11 more |
| determinism | the engine draws nothing by chance, and none of these bugs makes it do so; a test in properties/sim/scenarios/test_replay.py has one that does |
| retry, recovery, timeouts | they speak of what follows a fault, or of the time that it takes, and failed for 20, after others (retry 15, timeouts 5, recovery none: its mutants show earlier) |
"""

LEFT_OUT = """\
## Bugs of PyTorch that cannot be planted

| what was wrong | from | why not |
|---|---|---|
| a worker thread kept a context id after its request | p28312, i38710 | every request has a task of its own, which ends with it |
| two threads both decided to be the last of a pass | p36640 | whoever takes the one element of a list completes the pass, and its future is completed once |
| a destructor ran under the lock that it takes | p31893, p34610 | a destructor only makes a note, which a task reads |
| one table of handlers kept the first RRef's `this` | p192342 | handlers are methods, looked up in a table of each worker |
| a callback was attached under the lock that it takes | `rpc_agent.cpp` | nothing is attached under a lock |
| the pool was drained before the listeners were closed | i39855, p40060 | a group ends by counting calls, not by draining the pool |
| DDP read `.grad` | p37998 | reducers are not part of squall; the context that hooks see is (`leaf-context-…`) |
"""


def page() -> Iterator[str]:
    """The lines of the page."""
    expected = sum(mutant.expected for mutant in MUTANTS.values())
    yield HEAD + ", ".join(f"**{letter}** {text}" for letter, text in SCHEDULES.items()) + "."
    yield TAIL
    yield f"There are {len(MUTANTS)}, of which {expected} should be noticed."
    yield ""
    for family, mutants in FAMILIES.items():
        yield f"## {family.capitalize()}"
        yield ""
        yield "| mutant | from | what is wrong | needs | why nothing tells |"
        yield "|---|---|---|---|---|"
        for mutant in mutants:
            row = (f"`{mutant.name}`", mutant.origin, mutant.wrong, mutant.needs, mutant.unseen)
            yield f"| {' | '.join(row)} |"
        yield ""
    yield SEEN
    yield LEFT_OUT


if __name__ == "__main__":
    print("\n".join(page()), end="")
