"""Which planted bugs a campaign can try; their names are read without torch."""

from __future__ import annotations

from squall.sim.search.mutants.registry import LISTED, MUTANTS

#: what is tried if nothing else is said: bugs of all packages of the engine, each of which the
#: scenarios of the first 60 seeds have shown
BY_DEFAULT = (
    "fetch-not-recorded",
    "response-by-its-own-grad-mode",
    "second-output-of-a-node-lost",
    "message-shares-its-tensors",
    "context-comes-back-to-life",
    "dependency-not-counted",
    "sends-not-waited-for",
    "arrival-counted-again",
    "over-is-not-noticed",
    "graph-never-freed",
    "failed-gradients-not-told",
    "node-goes-on-after-the-end",
    "second-gradient-replaces-the-first",
    "buffer-adds-in-place",
    "shared-storage-stolen",
    "sparse-accumulates-dense-in-place",
    "child-accept-once-only",
    "users-of-the-owner-kept",
    "told-of-before-creation-freed",
    "second-owner-made",
    "one-waiter-woken",
    "no-timeout",
    "quiet-not-told",
    "future-completed-twice",
    "all-calls-lost-with-a-peer",
)


def check_bug(name: str) -> None:
    """Raises ValueError unless that is a planted bug that a campaign can find."""
    mutant = MUTANTS.get(name)
    if mutant is None:
        raise ValueError(f"there is no planted bug {name!r}; {LISTED}")
    if not mutant.expected:
        raise ValueError(f"{name!r} cannot be found yet: {mutant.unseen}")


def every_bug() -> tuple[str, ...]:
    """All that a campaign can find. Those of devices are tried on the stand-in device, and those that
    only faults bring out under each profile of faults, as ``squall mutants`` does it."""
    return tuple(name for name, mutant in MUTANTS.items() if mutant.expected)
