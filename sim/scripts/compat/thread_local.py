"""``threading.local`` of a simulated process: attributes of its own for each task.

Imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from squall.real.runtime import current_task

if TYPE_CHECKING:
    from squall.sim.world.primitives import SimTask
    from squall.sim.world.scheduler import SimRuntime


class local:  # noqa: N801 - the name that users see
    """``threading.local``: attributes of its own for each task."""

    __slots__ = ("__dict__", "__weakref__", "_squall_local")
    _squall_local: _LocalImpl

    def __new__(cls, /, *args: Any, **kwargs: Any) -> local:
        if (args or kwargs) and cls.__init__ is object.__init__:
            raise TypeError("Initialization arguments are not supported")
        self = object.__new__(cls)
        own = _LocalImpl(args, kwargs)
        object.__setattr__(self, "_squall_local", own)
        own.first_use(self)
        return self

    def __getattribute__(self, name: str) -> Any:
        _switch_local(self)
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__dict__":
            raise AttributeError(
                f"{type(self).__name__!r} object attribute '__dict__' is read-only"
            )
        _switch_local(self)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name == "__dict__":
            raise AttributeError(
                f"{type(self).__name__!r} object attribute '__dict__' is read-only"
            )
        _switch_local(self)
        object.__delattr__(self, name)


class _LocalImpl:
    """The dictionaries of one ``local``, by task; a task that is gone takes its own with it."""

    runtime: SimRuntime

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.runtime = current_task().runtime  # type: ignore[assignment]
        self.dicts: WeakKeyDictionary[SimTask, dict[str, Any]] = WeakKeyDictionary()

    def first_use(self, owner: local) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        self.dicts[self.runtime.running] = attributes
        object.__setattr__(owner, "__dict__", attributes)
        return attributes


def _switch_local(owner: local) -> None:
    own: _LocalImpl = object.__getattribute__(owner, "_squall_local")
    attributes = own.dicts.get(own.runtime.running)
    if attributes is None:
        own.first_use(owner)
        # A thread that sees the object for the first time initialises it for itself.
        type(owner).__init__(owner, *own.args, **own.kwargs)
        return
    object.__setattr__(owner, "__dict__", attributes)
