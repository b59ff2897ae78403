"""Inside a process of a script on the engine ``torch``: libraries whose compiled code makes connections and has threads
of its own, which no simulation reaches. They are refused when the script asks for them, before anybody waits in real time
for what virtual time does not bring.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from squall.sim.scripts.compat.guard import NotSimulatedError
from squall.sim.stock.after_import import after_import

#: by module: its servers, and what connects to them
_REFUSED = {
    "torchft._torchft": ("LighthouseClient", "LighthouseServer", "ManagerClient", "ManagerServer")
}


def install() -> None:
    """Refuse what of them is made from now on."""
    for name, classes in _REFUSED.items():
        after_import(name, partial(_replace, classes))


def _replace(classes: tuple[str, ...], module: Any) -> None:
    for name in classes:
        vars(module)[name] = _refusal(f"{module.__name__}.{name}")


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise NotSimulatedError(
            f"{name} is not simulated: its compiled code speaks over real connections, in real time. "
            "A script's own way to form groups anew is simulated, and so are torchrun's agents"
        )

    return refuse
