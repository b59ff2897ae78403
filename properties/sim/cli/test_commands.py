"""What all commands share: options declared once, quick help, and one file for one more command."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from squall.properties.support.commands import squall
from squall.properties.support.copied import copied_package, run_copy
from squall.properties.support.paths import ROOT
from squall.sim.cli.commands import command_modules, command_name

CLI = ROOT / "sim" / "cli"
#: a command as a stranger would write the first one, with an option that others have too
GREET = '''
"""``squall greet``: says hello."""

import json as json_module

import typer

from squall.sim.cli.options import Json, Seed

RANK = 35
EPILOG = "squall greet --seed 7"


def greet(seed: Seed = 0, json: Json = False) -> None:
    """Say hello to a seed."""
    typer.echo(json_module.dumps({"hello": seed}) if json else f"hello {seed}")
'''


def names_of_options() -> Counter[str]:
    """How often each name of an option is written down as one, in the source of the commands."""
    found: Counter[str] = Counter()
    for file in CLI.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "typer.Option",
                "file_option",
            ):
                words = [word.value for word in node.args if isinstance(word, ast.Constant)]
                found.update(word for word in words if str(word).startswith("--"))
    return found


def test_every_option_is_declared_once() -> None:
    names = names_of_options()
    assert {"--json", "--faults", "--seed", "--engine", "--save", "--list"} <= set(names)
    assert [name for name, times in names.items() if times > 1] == []


def test_help_lists_the_commands_in_their_order() -> None:
    shown = squall("--help").stdout
    rows = re.findall(r"^[│|] (\w[\w-]*) ", shown, re.M)
    names = [command_name(module) for module in command_modules()]
    assert len(names) > 10
    assert [row for row in rows if row in names] == names


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_torch_is_not_imported_for(word: str) -> None:
    look = (
        "import sys\n"
        "from squall.sim.cli.main import main\n"
        "try:\n"
        f"    main([{word!r}])\n"
        "finally:\n"
        "    print(sorted({'torch', 'numpy', 'networkx'} & set(sys.modules)))\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[-1] == "[]"


def test_one_more_command_is_one_more_file(tmp_path: Path) -> None:
    package = copied_package(tmp_path)
    (package / "sim" / "cli" / "commands" / "greet.py").write_text(GREET, encoding="utf-8")

    def greet(*words: str) -> subprocess.CompletedProcess[str]:
        return run_copy(tmp_path, "-m", "squall", *words)

    assert greet("greet", "--seed", "7").stdout == "hello 7\n"
    assert greet("greet", "--seed", "7", "--json").stdout == '{"hello": 7}\n'
    wrong = greet("greet", "--seed", "x")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("squall: --seed: expected an integer from 0 to ")
    listed = greet("--help").stdout
    assert "Say hello to a seed." in listed
    rows = re.findall(r"^[│|] (\w+) ", listed, re.M)
    assert rows.index("fuzz") < rows.index("greet") < rows.index("properties")
    assert "squall greet --seed 7" in greet("greet", "--help").stdout


def test_a_shell_can_complete_commands_and_options() -> None:
    for words, number, completed in (
        ("squall re", 1, "replay"),
        ("squall fuzz --see", 2, "--seeds"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", "from squall.sim.cli.entry import main; main()"],
            env={
                **os.environ,
                "_SQUALL_COMPLETE": "complete_bash",
                "COMP_WORDS": words,
                "COMP_CWORD": str(number),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stdout.split() == [completed]
