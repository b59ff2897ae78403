"""One process that all runs of programs on the compiled engine copy their workers from."""

from __future__ import annotations

import atexit
from dataclasses import dataclass

from squall.sim.stock.program import MODULES
from squall.sim.stock.zygote import Zygote


@dataclass
class _Shared:
    zygote: Zygote | None = None


_shared = _Shared()


def shared_zygote() -> Zygote:
    """The process that this one copies workers from; it is started once, and ends with this one."""
    if _shared.zygote is None:
        _shared.zygote = Zygote(MODULES)
        atexit.register(close_zygote)
    return _shared.zygote


def close_zygote() -> None:
    """End it, if there is one."""
    if _shared.zygote is not None:
        _shared.zygote.close()
        _shared.zygote = None
