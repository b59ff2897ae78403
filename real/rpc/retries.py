"""A request that is sent again until it is answered (rpc_agent.cpp: sendWithRetries).

Beyond PyTorch, which sends again only what has failed: silence for as long as the delay before the
next attempt is a reason too, while the earlier copies may still be answered. One lost message is
made good in a second and not after a whole timeout, which is also that of whoever waits for it.
"""

from __future__ import annotations

import itertools
from typing import Protocol

from squall.real import tracing
from squall.real.future import Future
from squall.real.ids import WorkerId
from squall.real.process import Agent, Process
from squall.real.rpc.constants import RETRY_BACKOFF, RETRY_BASE_S
from squall.real.rpc.errors import RpcError
from squall.real.rpc.message import Message
from squall.real.runtime import Timer


class Sender(Agent, Protocol):
    """The agent that sends the copies; see :class:`squall.real.rpc.agent.RpcAgent`."""

    worker: Process
    #: requests that wait to be sent again
    retries: dict[Retried, None]

    def answered_by_another_copy(self, id: int, reply: Message) -> None: ...


class Retried:
    """One request, on its way as one copy or as several.

    ``most``: how many times more it may be sent. Every copy is a call of its own; the first answer
    without error is that of all. When all have failed, :attr:`future` does.
    """

    __slots__ = (
        "__weakref__",
        "_agent",
        "_error",
        "_last",
        "_message",
        "_most",
        "_numbers",
        "_open",
        "_timer",
        "_to",
        "future",
    )

    def __init__(self, agent: Sender, to: WorkerId, message: Message, most: int) -> None:
        self._agent = agent
        self._to = to
        self._message = message
        self._most = most
        self.future: Future[Message] = Future(runtime=agent.worker.runtime, what=message)
        # Answers, timers and the end of the agent may come on several threads at once: each of
        # them changes what follows by single operations, and a copy too many does no harm.
        self._numbers = itertools.count()
        #: the number of the last copy
        self._last = -1
        #: copies that have not been answered, and the ids of their calls, None before they have one
        self._open: dict[int, int | None] = {}
        self._timer: Timer | None = None
        self._error: BaseException | None = None
        if agent.worker.tracer.enabled:
            agent.worker.tracer.made(self)

    def attempt(self) -> None:
        """Send a copy. Raises what the agent's ``send`` raises."""
        agent, message = self._agent, self._message
        number = self._last = next(self._numbers)
        # Known as open before the timer is forgotten: an earlier copy that fails meanwhile must
        # not take itself for the last one.
        self._open[number] = None
        self._timer = None
        sent_at = agent.worker.runtime.now()
        copy = Message(message.type, message.payload, message.tensors, about=message.about)
        late_s = retry_delay_s(number) if number < self._most else None
        try:
            reply = agent.send(self._to, copy, late_s=late_s, late=self._late)
        except BaseException:
            del self._open[number]
            raise
        self._open[number] = copy.id

        def answered(reply: Future[Message]) -> None:
            self._open.pop(number, None)
            error = reply.error
            if error is None:
                self._succeed(reply.raw_value())
            elif self.future.is_done:
                pass
            elif not agent.is_running:
                self.future.try_fail(error)
            elif number == self._last and number < self._most:
                self._schedule(number, sent_at, error)
            elif not self._open and self._timer is None:
                self.future.try_fail(
                    RpcError(
                        "The RPC has not succeeded after the specified number of max retries "
                        f"({self._most})."
                    )
                )

        reply.add_callback(answered)

    def stop(self) -> None:
        """Whoever waits for the next attempt gets the error of the last one."""
        timer = self._timer
        if timer is not None:
            timer.cancel()
        assert self._error is not None
        self.future.try_fail(self._error)

    def _succeed(self, reply: Message) -> None:
        self.future.try_complete(reply)
        timer = self._timer
        if timer is not None:
            timer.cancel()
            self._timer = None
            self._agent.retries.pop(self, None)
        for id in list(self._open.values()):
            if id is not None:
                self._agent.answered_by_another_copy(id, reply)

    def _schedule(self, number: int, sent_at: float, error: BaseException) -> None:
        """Send another copy when the delay is over, which counts from the last one's sending."""
        agent = self._agent
        runtime = agent.worker.runtime
        wait_s = max(0.0, sent_at + retry_delay_s(number) - runtime.now())
        self._report(number + 1, wait_s)
        self._error = error
        agent.retries[self] = None
        self._timer = runtime.call_later(wait_s, self._due)
        if not agent.is_running and agent.retries.pop(self, self) is None:
            self.stop()  # the agent may have stopped its retries before this one was among them

    def _due(self) -> None:
        self._agent.worker.runtime.spawn(self._again, name="retry", worker=self._agent.worker)

    def _again(self) -> None:
        if self._agent.retries.pop(self, self) is self:  # called off
            return
        if not self.future.is_done:
            self._send_another()

    def _late(self) -> None:
        """The last copy has not been answered for as long as the next attempt waits."""
        if self._timer is None and not self.future.is_done and self._agent.is_running:
            self._report(self._last + 1, 0.0)
            self._send_another()

    def _send_another(self) -> None:
        try:
            self.attempt()
        except RuntimeError as failure:
            self.future.try_fail(failure)

    def _report(self, attempt: int, wait_s: float) -> None:
        tracer = self._agent.worker.tracer
        if tracer.enabled:
            type = self._message.type._name_
            tracer.emit(tracing.CALL_RETRIED, self._to, type, attempt, wait_s)


def retry_delay_s(number: int) -> float:
    """From the sending of copy ``number`` (from 0) to that of the next; the first value occurs
    twice, as in PyTorch."""
    return RETRY_BASE_S * RETRY_BACKOFF ** max(number - 1, 0)
