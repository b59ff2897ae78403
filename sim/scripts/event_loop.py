"""The event loop of asyncio in a simulated process: Python's own, which waits in virtual time.

What it waits for is an event of ``threading``, woken by other threads, instead of sockets: so it does on
either engine what a thread that waits there does. Imports no torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from squall.sim.scripts.compat.signatures import describe_as

#: what an event loop has that reaches outside of the simulation
_OUTSIDE = (
    *("add_reader", "add_writer", "add_signal_handler", "connect_read_pipe", "connect_write_pipe"),
    *("create_connection", "create_datagram_endpoint", "create_server", "create_unix_connection"),
    *("create_unix_server", "sendfile", "sock_accept", "sock_connect", "sock_recv"),
    *("sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall", "sock_sendfile"),
    *("sock_sendto", "start_tls", "subprocess_exec", "subprocess_shell"),
)


class Selector:
    """In the place of a selector of files: waits until it is woken."""

    def __init__(self, threading: Any, look: Callable[[], object]) -> None:
        self._awoken = threading.Event()
        self._look = look

    def wake(self) -> None:
        self._awoken.set()

    def select(self, timeout: float | None) -> list[Any]:
        """Wait for ``timeout`` seconds of virtual time, for ever if None; no file is ever ready."""
        if timeout is not None and timeout <= 0:
            self._look()  # whoever polls lets the others go on
        else:
            self._awoken.wait(timeout)
        self._awoken.clear()
        return []


def install(asyncio: ModuleType, threading: ModuleType, look: Callable[[], object]) -> None:
    """Let the loops that ``asyncio`` makes from now on be simulated. ``threading`` is that of the
    process; ``look`` reads its clock, at which others may go on."""
    parts: Any = asyncio
    base: Any = parts.base_events.BaseEventLoop

    class SimulatedEventLoop(base):  # type: ignore[misc]
        def __init__(self, selector: object = None) -> None:
            super().__init__()
            self._selector = Selector(threading, look)

        def _process_events(self, events: list[Any]) -> None:
            """There are none."""

        def _write_to_self(self) -> None:
            self._selector.wake()

    for name in _OUTSIDE:
        setattr(SimulatedEventLoop, name, _refusal(name))
    unix: Any = parts.unix_events
    # Not that of the process's copy, which what is kept of it would keep alive.
    real: Any = importlib.import_module("asyncio.unix_events")
    describe_as(SimulatedEventLoop, real.SelectorEventLoop)
    for module in (parts, unix):
        module.SelectorEventLoop = SimulatedEventLoop
        if hasattr(module, "EventLoop"):
            module.EventLoop = SimulatedEventLoop
    unix.DefaultEventLoopPolicy._loop_factory = SimulatedEventLoop


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise NotImplementedError(
            f"the event loop of a simulated process has no {name}: sockets, pipes, signals and "
            "subprocesses are outside of the simulation"
        )

    return refuse
