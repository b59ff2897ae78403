"""What PyTorch's faulty agent does as it sends (testing/faulty_tensorpipe_agent.cpp), as a rule of
the simulated network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from squall.real.rpc.errors import RpcErrorKind, make_rpc_error
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.sim.world.rules import Delay, Fail, Ruling


class FaultySends:
    """The rule of one worker: its first ``num_fail_sends`` sends of a request fail, if ``messages_to_fail``
    has its type, and those of ``messages_to_delay`` come so many seconds later.

    A request that is sent again is known by its payload. Raises RuntimeError for a name that no type
    of message has.
    """

    def __init__(
        self,
        worker_id: int,
        num_fail_sends: int,
        messages_to_fail: Sequence[str],
        messages_to_delay: Mapping[str, float],
    ) -> None:
        self.worker_id = worker_id
        self.num_fail_sends = num_fail_sends
        self._to_fail = {_type(name): None for name in messages_to_fail}
        self._delays = {_type(name): Delay(seconds) for name, seconds in messages_to_delay.items()}
        self._failed: dict[bytes, int] = {}

    def __call__(self, message: Message) -> Ruling | None:
        if message.src != self.worker_id:
            return None
        if message.type in self._to_fail:
            count = self._failed.get(message.payload, 0)
            if count < self.num_fail_sends:
                self._failed[message.payload] = count = count + 1
                text = f"Send attempt {count} failed intentionally for {message!r}"
                return Fail(str(make_rpc_error(text, RpcErrorKind.INTENTIONAL)))
        return self._delays.get(message.type)


def _type(name: str) -> MessageType:
    try:
        return MessageType[name]
    except KeyError:
        raise RuntimeError(f"No such message type: {name}") from None
