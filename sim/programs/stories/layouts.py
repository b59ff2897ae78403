"""A story about gradients whose layouts differ from pass to pass."""

from __future__ import annotations

import torch
from torch.nn import functional

from squall.model.program.stories import stories_of
from squall.real.autograd import api as autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.stories.api import told

label_module(__name__, "layouts")
story = stories_of(__name__, rank=110)


def gradients_in_turn(passes: int, sparse: int) -> list[list[float]]:
    """What passes add up to of which some, as the bits say, give a table a sparse gradient."""
    table = torch.ones(3, 2, requires_grad=True)
    with autograd.context() as context_id:
        for number in range(passes):
            rows = functional.embedding(torch.tensor([0, 1, 0]), table, sparse=True)
            loss = rows.sum() if sparse >> number & 1 else (table * 10).sum()
            autograd.backward(context_id, [loss])
        gradient = autograd.get_gradients(context_id)[table]
        found: list[list[float]] = gradient.to_dense().tolist()
        return found


@story(
    "layouts in turn",
    numbers={"passes": (1, 4), "sparse": (0, 15)},
    port_only="PyTorch's engine loses a dense gradient that comes after a sparse one "
    "(docs/findings.md, sparse-then-dense)",
)
def layouts_in_turn(to: int, passes: int, sparse: int) -> str:
    """Gradients of several passes, some of them sparse and in any order, add up."""
    sparse &= (1 << passes) - 1
    rows, dense = sparse.bit_count(), 10.0 * (passes - sparse.bit_count())
    wanted = [[dense + times * rows] * 2 for times in (2, 1, 0)]
    return told(added=rpc.rpc_sync(to, gradients_in_turn, args=(passes, sparse)) == wanted)
