"""The page about all commands says what their help says."""

from __future__ import annotations

from squall.properties.support.markdown import anchors
from squall.properties.support.paths import DOCS
from squall.sim.cli.commands import command_modules, command_name
from squall.sim.cli.page import page


def test_the_page_is_that_of_the_commands() -> None:
    assert (DOCS / "commands.md").read_text(encoding="utf-8") == page(), "make commands"


def test_each_command_has_a_part_of_its_own() -> None:
    names = [command_name(module) for module in command_modules()]
    assert {f"squall-{name}" for name in names} < anchors(page())
