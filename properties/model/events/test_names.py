"""What people are told of messages."""

from __future__ import annotations

from squall.model.events.names import in_words, ordinal, type_named
from squall.real.rpc.message_type import MessageType


def test_every_type_of_message_is_said_in_words() -> None:
    plain = [
        name
        for name in MessageType.__members__
        if type_named(name) == name.lower().replace("_", " ")
    ]
    assert not plain


def test_what_a_text_names_is_said_in_words() -> None:
    text = "a CLEANUP_AUTOGRAD_CONTEXT_REQ was sent too rarely, MASTER_ADDR is set"
    assert in_words(text, {}) == "a release of a context was sent too rarely, MASTER_ADDR is set"
    text = f"that of context {(2 << 48) + 11} runs, the context 0 was released on worker 2"
    said = "that of the 12th context of ps runs, the 1st context of worker 0 was released on ps"
    assert in_words(text, {2: "ps"}) == said
    assert [*map(ordinal, (1, 2, 3, 4, 11, 112, 1021))] == [
        "1st",
        "2nd",
        "3rd",
        "4th",
        "11th",
        "112th",
        "1,021st",
    ]
