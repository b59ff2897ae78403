"""How a process is set up while it runs scenarios."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from squall.sim.world.device import quiet_torch
from squall.sim.world.garbage import still_garbage


@contextmanager
def campaign_settings(device: str = "cpu") -> Iterator[None]:
    """One thread, one device, no log, no warning and no automatic collection of garbage: for a
    process that judges many seeds."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with quiet_torch(device), still_garbage(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
