"""The option ``--faults`` of ``squall run``: a profile or the file of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import cast, get_args

from squall.real.rpc.constants import DEFAULT_RPC_TIMEOUT_S
from squall.sim.cli.input import BadInput, RunOptions
from squall.sim.faults.file import load_plan
from squall.sim.faults.plan import NO_FAULTS, Plan
from squall.sim.search.draw import Profile, draw_faults


def script_faults(options: RunOptions) -> Plan:
    """What is to go wrong in the run of a script.

    Raises :class:`BadInput` for what is neither a profile nor a file with a plan for so many
    workers, and for a profile without their number.
    """
    text = options.faults
    if text is None:
        return NO_FAULTS
    if text in get_args(Profile):
        if options.workers is None:
            raise BadInput("--faults", text, f"{text} needs the number of workers: give --workers")
        profile = cast(Profile, text)
        return draw_faults(profile, options.seed, options.workers, DEFAULT_RPC_TIMEOUT_S)
    path = Path(text)
    if not path.is_file():
        known = ", ".join(get_args(Profile))
        raise BadInput("--faults", text, f"expected {known} or a file with a plan, got {text!r}")
    try:
        return load_plan(path, workers=options.workers)
    except (ValueError, OSError) as error:
        raise BadInput("--faults", text, f"{text}: {error}") from None
