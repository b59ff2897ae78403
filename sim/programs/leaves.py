"""What the leaves of a program come to, read where they are: without messages."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from squall.model.one_process.outcome import Gradients
from squall.model.program.program import Program
from squall.real.worker import Worker
from squall.sim.programs.host import Host
from squall.sim.world.device import unseen

#: the number of a gradient that belongs to no leaf of the program
STRAY = -1


def leaves_of(program: Program, hosts: Sequence[Host]) -> list[Tensor]:
    """Copies of a program's leaves as they are now."""
    return [
        hosts[leaf.owner].leaves[number].detach().clone()
        for number, leaf in enumerate(program.leaves)
    ]


def is_leaf_of(hosts: Sequence[Host], tensor: Tensor) -> bool:
    """Whether a tensor is a leaf of the program that runs on these hosts."""
    return any(tensor is leaf for host in hosts for leaf in host.leaves.values())


def gradients_of(workers: Sequence[Worker], hosts: list[Host], context_id: int) -> Gradients:
    """What all workers have accumulated in a context, read where it is: without messages."""
    found: Gradients = {}
    for worker, host in zip(workers, hosts, strict=True):
        if worker.container is None:
            continue
        try:
            gradients = worker.container.retrieve_context(context_id).get_gradients()
        except RuntimeError:  # this worker does not know the context
            continue
        for tensor, gradient in gradients.items():
            number = next((n for n, leaf in host.leaves.items() if leaf is tensor), STRAY)
            if gradient.requires_grad:  # no pass here asks for a graph of it
                number = STRAY
            # To the host, at once: later passes may be behind this reading in no other way.
            with unseen():
                found[number] = (
                    gradient.detach().clone() if gradient.is_cpu else gradient.detach().cpu()
                )
        # It is the caller's own: whoever gives away the map of the context itself has lost it now.
        gradients.clear()
    return found
