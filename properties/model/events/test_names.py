"""What people are told of messages."""

from __future__ import annotations

from squall.model.events.names import type_named, types_named
from squall.real.rpc.message_type import MessageType


def test_every_type_of_message_is_said_in_words() -> None:
    plain = [
        name
        for name in MessageType.__members__
        if type_named(name) == name.lower().replace("_", " ")
    ]
    assert not plain


def test_types_within_a_text_are_said_in_words() -> None:
    text = "a CLEANUP_AUTOGRAD_CONTEXT_REQ was sent too rarely, MASTER_ADDR is set"
    assert types_named(text) == "a release of a context was sent too rarely, MASTER_ADDR is set"
