"""How many threads the agents of a program's workers have."""

from __future__ import annotations

from squall.model.program.program import Program
from squall.real.rpc.constants import DEFAULT_NUM_WORKER_THREADS


def threads_of(program: Program) -> int:
    """PyTorch's default, or more where the program's calls could otherwise wait for one another:
    with too few threads that is a deadlock, on stock PyTorch too."""
    return max(DEFAULT_NUM_WORKER_THREADS, program.most_handlers)
