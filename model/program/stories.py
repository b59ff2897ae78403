"""Stories: small scenes beside the computation of a step, each with a result that is known.

A story runs in a task of its own while its step goes on. It makes calls to one worker, perhaps
in an autograd context of its own, and tells in a line what came of them (sim/programs/stories/calls.py,
sim/programs/stories/passes.py). What programs themselves cannot show is shown here: timeouts, errors of
every kind, callbacks, passes that must not begin or must not go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from pydantic import ConfigDict

StoryKind = Literal[
    "timeout",
    "late reference",
    "late creation",
    "slow creation",
    "failed creation",
    "callbacks",
    "operator error",
    "late error",
    "exceptions",
    "unreadable argument",
    "unwritable",
    "confirmation",
    "left behind",
    "reply without grad",
    "crowd",
    "crowd before a creation",
    "structures",
    "second pass",
    "freed graph",
    "failed pass again",
    "overtaken pass",
    "stop at an error",
    "released by a hook",
    "released meanwhile",
    "leaf context",
    "hooks in order",
    "grad mode",
    "views of one gradient",
    "sparse, then dense",
    "optimizer by grad",
    "futures",
    "names",
    "roots",
    "roots by reference",
    "proxies",
    "what is returned",
    "after the pass",
    "layouts",
    "callbacks at home",
    "profiled",
    "operators",
    "gathers",
    "steps",
    "after the end",
    "callback at the end",
]
KINDS: tuple[StoryKind, ...] = get_args(StoryKind)
#: those that tell many small things at once, about this engine alone: only rounds have them
WIDE: tuple[StoryKind, ...] = KINDS[KINDS.index("futures") :]
#: those that any program may have
DRAWN: tuple[StoryKind, ...] = KINDS[: -len(WIDE)]
#: what a wide one tells when all is well
AS_IT_SHOULD_BE = "as it should be"

#: virtual seconds that a slow function takes, and that a call of it waits which gives up
SLOW_S, SHORT_S = 3.0, 1.0
#: calls at once that are more than a worker has threads
CROWD = 20
LR = 0.5

TIMED_OUT = (
    f"RPCErr:1:RPC ran for more than set timeout ({SHORT_S * 1000:.0f} ms) and will now be "
    "marked with an error"
)
CREATION_TIMED_OUT = "RuntimeError: RRef creation via rpc.remote() timed out"
_PLANTED = "planted in a story"


def _said_by_torch() -> str:
    """The error of an operator whose arguments do not fit: its text differs between releases."""
    try:
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    except RuntimeError as error:
        return str(error)
    raise AssertionError("torch.mm multiplied matrices that do not fit")


_OPERATOR = _said_by_torch()
#: the errors of handlers that stories bring about say one of these
ERRORS = (_PLANTED, _OPERATOR, "got a vector of size 2")


class StoryError(RuntimeError):
    """An error that a story asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """``kind`` of scene, between the trainer's worker and ``worker``. It begins before operation
    ``before`` of its step, or at its end if the step has not so many."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    kind: StoryKind
    worker: int
    before: int = 0


def expected(story: Story, home: int) -> str:
    """The line that a story of a trainer on worker ``home`` must come to."""
    to = story.worker
    if story.kind == "slow creation" and to == home:
        return "no error but 1; 1"  # what is here is waited for, however long it takes
    if story.kind in ("failed pass again", "stop at an error"):
        way = f"Error on Node {home}: " + (f"Error on Node {to}: " if to != home else "")
        after = "none; [2.0, 4.0]" if story.kind == "failed pass again" else "[]"
        return f"RuntimeError: {way}{_PLANTED}; {after}"
    return _EXPECTED[story.kind].replace("<to>", str(to))


_HANDLER = f"Error on Node <to>: StoryError: {_PLANTED}"
_EXPECTED: dict[StoryKind, str] = {
    "timeout": f"RuntimeError: {TIMED_OUT}; after {SHORT_S:g} s; 2",
    "late reference": f"RuntimeError: {TIMED_OUT}",
    "late creation": "[True, True]; True",
    "slow creation": f"RuntimeError: {TIMED_OUT}; 1",
    "failed creation": f"RuntimeError: {_HANDLER}; RpcError: {_HANDLER}; RuntimeError: {_HANDLER}",
    "callbacks": "3; 4; [3, 5]; [3, 3, 3]; RuntimeError: Got the following error when running the callback: "
    f"StoryError: {_PLANTED}",
    "operator error": f"RuntimeError: {_OPERATOR}; RuntimeError: {_OPERATOR}",
    "late error": f"RuntimeError: StoryError: {_PLANTED}; RuntimeError: StoryError: {_PLANTED}",
    "exceptions": "ValueError ValueError TypeError TypeError RuntimeError KeyError",
    "unreadable argument": f"RuntimeError: {_HANDLER}; True",
    "unwritable": f"StoryError: {_PLANTED}; RuntimeError: StoryError: {_PLANTED}",
    "confirmation": "True",
    "left behind": "sent",
    "reply without grad": "[False, True]",
    "crowd": f"True; {CROWD}",
    "crowd before a creation": f"int; {CROWD}; 1",
    "structures": f"{[True] * 8}",
    "second pass": "True; [2.0, 4.0]",
    "freed graph": "[4.0, 8.0]; True",
    "overtaken pass": "True; no error but None; [4.0, 8.0]",
    "released by a hook": "released",
    "released meanwhile": "released; [1.0, 2.0]",
    "leaf context": "[True, True]",
    "hooks in order": "t1 t2 p1 p2 q1 q2 t1 t2 p1 p2 q1 q2; [[1.0, 1.0], [1.0, 1.0]]",
    "grad mode": "[8.0, 16.0]; False; [False]",
    "views of one gradient": "[[2.0], [2.0]] [[2.0, 2.0]]",
    "sparse, then dense": "[[3.0, 3.0], [2.0, 2.0], [1.0, 1.0]]",
    "optimizer by grad": "[0.0, 1.0, 0.5, 2.0]",
    **dict.fromkeys(WIDE, AS_IT_SHOULD_BE),
}
