"""How whoever embeds a worker may step in on what it does.

A worker is made with four things that come from whoever embeds it: a
:class:`~squall.real.runtime.Runtime` for time and tasks, a
:class:`~squall.real.rpc.transport.Transport` for messages, a :class:`~squall.real.tracing.Tracer`
for events, and, if it wants one, an :class:`Interceptor`. A tracer is only told of what happens; an
interceptor is asked before the worker goes on, and may refuse by raising: a quota, a limit for user
code, an error on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from squall.real.rpc.message import Message
    from squall.real.runtime import TaskOwner

#: what a worker is about to do: call a user's function ("udf") or the hooks of a node ("hook"), run a
#: node of a graph ("node"), pickle or unpickle an object that travels
Place = Literal["udf", "hook", "node", "pickle", "unpickle"]


class Interceptor:
    """Steps in on the workers whose ``interceptor`` it is; this one lets everything pass.

    Its methods run on the task that comes there and must not block. It is to be given to a worker
    before ``init_rpc``, where the engine takes it over.
    """

    def at(self, worker: TaskOwner, place: Place) -> None:
        """``worker`` comes to a place. What is raised here is raised there."""

    def handled(self, worker: TaskOwner, message: Message) -> None:
        """``worker`` is done with a message: a request is answered, a reply is with its caller.

        Later than the events ``handler_ended`` and ``call_ended``: whatever the end of a call has
        set off has been sent.
        """
