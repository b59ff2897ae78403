"""The processes that all runs on the compiled engine copy their workers from, one for programs and
one for scripts."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, NamedTuple

from squall.sim.stock.zygote import Zygote

if TYPE_CHECKING:
    from squall.sim.scenario import Script


class _Shared(NamedTuple):
    zygote: Zygote
    #: what its copies have from it: folder and environment
    folder: str
    environment: dict[str, str]


#: what optimizers import, which takes as long as torch itself
WARM = "squall.real.native.warm"
#: what the process that is copied imports, to play programs or scripts
PROGRAMS = ("squall.sim.stock.guest", WARM)
SCRIPTS = ("squall.sim.stock.script_guest", "squall.sim.stock.stacks", WARM)
#: by the modules that it has imported
_shared: dict[tuple[str, ...], _Shared] = {}


def for_script(script: Script) -> tuple[str, ...]:
    """What the process imports that is copied for a script. One that has no word of optimizers does not
    wait for what these import; should it have some all the same, each copy imports that itself."""
    optimizes = any("optim" in line.text.lower() for line in (script, *script.others))
    return SCRIPTS if optimizes else tuple(name for name in SCRIPTS if name != WARM)


def shared_zygote(modules: tuple[str, ...]) -> Zygote:
    """The process with these modules that this one copies workers from.

    It is started once, and ends with this one; it is started anew if this process has gone to
    another folder since, or has another environment. Raises
    :class:`squall.real.native.build.Unavailable`.
    """
    zygote = begun_zygote(modules)
    try:
        zygote.ready()
    except BaseException:
        _shared.pop(modules, None)
        raise
    return zygote


def begun_zygote(modules: tuple[str, ...]) -> Zygote:
    """The same process, which may be importing still: it does so while the caller does something else."""
    known = _shared.get(modules)
    folder, environment = os.getcwd(), dict(os.environ)
    environment.pop("PYTEST_CURRENT_TEST", None)  # pytest changes it with each test
    if known is not None and (known.folder, known.environment) != (folder, environment):
        known.zygote.close()
        del _shared[modules]
        known = None
    if known is None:
        if not _shared:
            atexit.register(close_zygotes)
        known = _shared[modules] = _Shared(Zygote(modules, wait=False), folder, environment)
    return known.zygote


def close_zygotes() -> None:
    """End them, if there are any."""
    while _shared:
        _shared.popitem()[1].zygote.close()
