"""The processes that all runs on the compiled engine copy their workers from, one for programs and
one for scripts."""

from __future__ import annotations

import atexit
import os
from typing import NamedTuple

from squall.sim.stock.zygote import Zygote


class _Shared(NamedTuple):
    zygote: Zygote
    #: what its copies have from it: folder and environment
    folder: str
    environment: dict[str, str]


#: by the modules that it has imported
_shared: dict[tuple[str, ...], _Shared] = {}


def shared_zygote(modules: tuple[str, ...]) -> Zygote:
    """The process with these modules that this one copies workers from.

    It is started once, and ends with this one; it is started anew if this process has gone to
    another folder since, or has another environment.
    """
    known = _shared.get(modules)
    folder, environment = os.getcwd(), dict(os.environ)
    environment.pop(
        "PYTEST_CURRENT_TEST", None
    )  # another one in each test, and nothing to a worker
    if known is not None and (known.folder, known.environment) != (folder, environment):
        known.zygote.close()
        del _shared[modules]
        known = None
    if known is None:
        if not _shared:
            atexit.register(close_zygotes)
        known = _shared[modules] = _Shared(Zygote(modules), folder, environment)
    return known.zygote


def close_zygotes() -> None:
    """End them, if there are any."""
    while _shared:
        _shared.popitem()[1].zygote.close()
