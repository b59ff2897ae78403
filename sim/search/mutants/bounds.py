"""What exploring small worlds would need to show the planted bugs that it does not show today.

By the name of the bug; docs/mutants.md has it. A campaign is expected to find these. Why those
that are not expected cannot be seen is said where they are planted
(:attr:`~squall.sim.search.mutants.mutant.Mutant.unseen`).
"""

from __future__ import annotations

_END_OF_A_GROUP = "the end of a group with calls under way, in the grain `task`: more orders than the seconds allow"
_SEVERAL_TIMES = "a message that is lost more than once: as many faults"
_IN_USE_AS_IT_LEAVES = "a worker that leaves while another of its threads still uses a reference, which no program does"

BOUNDS: dict[str, str] = {
    "autograd-after-rpc": "messages that arrive while workers join their group: what is explored "
    "begins when it stands",
    "type-holds-its-thread": "workers with one thread",
    "forked-after-delete": _IN_USE_AS_IT_LEAVES,
    "fetched-after-delete": _IN_USE_AS_IT_LEAVES,
    "shutdown-does-not-wait-for-pending": _END_OF_A_GROUP,
    "settled-not-told": _END_OF_A_GROUP,
    "quiet-not-told": _END_OF_A_GROUP,
    "quiet-before-callbacks": _END_OF_A_GROUP,
    "join-for-oneself": _END_OF_A_GROUP,
    "join-counts-too-early": _END_OF_A_GROUP,
    "join-does-not-wait": _END_OF_A_GROUP,
    "retry-sleeps": "a send that fails, and a shutdown during its back-off: two faults",
    "answered-retry-stays": "a message that is lost, and its copy late: two faults",
    "silence-for-the-delay-after-next": _SEVERAL_TIMES,
    "all-delays-are-the-first": _SEVERAL_TIMES,
    "one-resend-less": _SEVERAL_TIMES,
    "release-sent-five-times": _SEVERAL_TIMES,
    "late-call-begins-anew": "a call under a limit of time whose arguments are late: time passes "
    "twice",
    "first-call-to-a-lost-peer": "a process that ends and begins again",
    "pass-of-anybody-is-earlier": "passes in one context that several workers begin, one after the "
    "other",
    "users-not-forgotten": _END_OF_A_GROUP,
    "remaining-read-before-turn": "a group of no fixed size: its story has a network of its own, "
    "which is not explored",
    "reset-is-an-end": "a connection that breaks while both of its processes live on",
}
