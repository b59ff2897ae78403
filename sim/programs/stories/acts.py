"""The story that does acts, which are put together freely (model/program/acts/)."""

from __future__ import annotations

from squall.model.program.stories import ACTS, stories_of

story = stories_of(__name__)


@story(
    ACTS,
    errors=(
        "RPC ran for more than set timeout",
        "RRef creation via rpc.remote() timed out",
        "Trying to backward through the graph a second time",
        "Already have an autograd context id for this thread",
    ),
)
def do_acts(to: int) -> str:
    """Acts that call each other's workers, make references and open contexts, beside and within
    each other."""
    raise AssertionError("a story of this kind is done by its acts")
