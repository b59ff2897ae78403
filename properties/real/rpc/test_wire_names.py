"""No message says where in squall a thing lives: its size would depend on that, and digests with it."""

from __future__ import annotations

import re

import pytest

from squall.real.rpc.message import Message
from squall.real.rpc.store import Store
from squall.real.rpc.wire_names import find_by_wire_name, label_module, wire_name
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.corpus import corpus
from squall.sim.search.draw import draw, settings_of
from squall.sim.world.network import Network


def test_no_message_names_a_module_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    named: set[bytes] = set()
    send = Network.send

    def look(self: Network, store: Store, message: Message) -> None:
        named.update(re.findall(rb"squall[./]\w[\w./]*", message.payload))
        send(self, store, message)

    monkeypatch.setattr(Network, "send", look)
    with campaign_settings():
        for profile in ("", "rough", "storm"):
            for seed in range(30):
                play(draw(seed, settings_of(profile)))
        for scenario in corpus().values():
            if scenario.engine == "port":  # PyTorch's engine pickles by names of modules
                play(scenario)
    assert named == set()


def test_a_label_is_that_of_one_module() -> None:
    from squall.sim.programs.host import perform

    assert wire_name(perform) == "program.perform"
    assert find_by_wire_name("program.perform") is perform
    assert wire_name(print) is wire_name(3) is None
    with pytest.raises(ValueError, match=r"is that of squall\.sim\.programs\.host"):
        label_module(__name__, "program")
