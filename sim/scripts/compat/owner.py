"""The worker that a simulated process runs as, for modules that import no torch."""

from __future__ import annotations

from typing import Any

from squall.real.runtime import current_task


def current_owner() -> Any:
    """As :func:`squall.real.worker.current_worker`, whose module imports torch.

    Raises RuntimeError outside every process.
    """
    worker = current_task().worker
    if worker is None:
        raise RuntimeError("this task belongs to no worker")
    return worker
