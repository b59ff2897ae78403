"""The work of a lease, in a process of its own; what comes of it depends on nothing else."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from hashlib import blake2b
from itertools import chain
from multiprocessing.connection import Connection
from typing import NamedTuple

import torch

from squall.model.events.run import Violation
from squall.sim.campaigns.plan import Lease
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings
from squall.sim.search.judge import Verdict, drawn_ahead, judge_in_time


class Row(NamedTuple):
    """What became of a seed; ``property``, ``what`` and ``text`` are of the first violation, ""
    without one. ``text`` may name what differs between processes, and counts in no digest."""

    seed: int
    property: str = ""
    what: str = ""
    digest: str = ""
    events: int = 0
    text: str = ""


class Judged(NamedTuple):
    """What a lease has come to. ``digest``: over all that is known of its seeds. ``pid``: of the
    process that has reached the last verdict, on ``host``, ``seconds`` of real time after the
    lease was begun there. ``worker``: what the driver calls who has judged it. ``facts`` and
    ``situations``: behaviour and rare situations that its seeds have shown, if that was asked for."""

    lease: Lease
    digest: str
    events: int
    failures: tuple[Row, ...]
    pid: int = 0
    host: str = ""
    seconds: float = 0.0
    worker: str = ""
    facts: tuple[int, ...] = ()
    situations: tuple[str, ...] = ()


def judged(lease: Lease, rows: list[Row], pid: int = 0, seconds: float = 0.0) -> Judged:
    """On this machine. ``rows``: of its seeds, in their order."""
    events = sum(row.events for row in rows)
    failures = tuple(row for row in rows if row.property)
    digest, host = digest_of(lease, rows), socket.gethostname()
    return Judged(lease, digest, events, failures, pid, host, seconds)


def work(
    connection: Connection, seeds: range, settings: Settings, driver: int, *, again: bool
) -> None:
    """Judge the seeds, and send a row of each as it is there, as long as the driver lives.

    ``again``: a process has ended at the first of them, which is drawn alone then: else it might
    be blamed for what the drawing of a later one does.
    """
    _end_with_parent()
    torch.set_num_threads(1)
    with campaign_settings(settings.device):
        for source in chain(seeds[:again], drawn_ahead(seeds[again:], settings)):
            if os.getppid() != driver:
                return
            connection.send(row_of(judge_in_time(source, settings)))


def _end_with_parent() -> None:
    """Let the kernel end this process when the thread that has made it ends. A scenario that hangs
    would never see that nobody waits for it. On other systems than Linux it is not asked."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def row_of(verdict: Verdict) -> Row:
    if verdict.ok:
        return Row(verdict.seed, digest=verdict.digest, events=verdict.events)
    return failed_row(verdict.seed, verdict.violations[0], verdict.digest, verdict.events)


def failed_row(seed: int, first: Violation, digest: str = "", events: int = 0) -> Row:
    """Of a seed whose first violation that is."""
    return Row(seed, first.property, first.what, digest, events, str(first))


def digest_of(lease: Lease, rows: list[Row]) -> str:
    """Over all that is known of the seeds of a lease."""
    told = [lease.part.name, *(tuple(row[:5]) for row in rows)]
    return blake2b(repr(told).encode(), digest_size=16).hexdigest()
