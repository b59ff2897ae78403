"""Options that ``squall.toml`` gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from squall.properties.support.markdown import blocks
from squall.properties.support.paths import DOCS, ROOT
from squall.sim.cli import defaults
from squall.sim.cli.main import command, main

SCRIPT = str(ROOT / "examples" / "pipeline.py")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ran(words: list[str], file: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, and what it printed with that ``squall.toml``."""
    Path(defaults.FILE).write_text(file, encoding="utf-8")
    with pytest.raises(SystemExit) as left:
        main(words)
    told = capsys.readouterr()
    return int(left.value.code or 0), told.out, told.err


def test_the_file_says_what_the_command_line_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    file = '[run]\nworkers = 3\nseed = 5\n[fuzz]\nseeds = "0:2"\n'
    code, out, err = ran(["run", SCRIPT, "--seed", "7"], file, capsys)
    assert code == 0 and "3 workers, seed 7" in out
    assert err.startswith("squall: --workers as squall.toml says\n")
    code, out, err = ran(["fuzz"], file, capsys)
    assert code == 0 and "2 scenarios" in out and "--seeds" in err


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("[rnu]\n", "squall.toml: expected the table of a command, such as [run], got 'rnu'"),
        ("workers = 3\n", "squall.toml: expected the table of a command, such as ["),
        ("[run]\nworker = 3\n", "[run] worker: squall run has no option --worker, did you mean workers?"),
        ("[run]\nworkers = true\n", "[run] workers: expected a text or a number, got True"),
        ("[run]\nworkers = 0\n", "--workers: expected an integer from 1 to 32768, got '0' (in squall.toml)"),
        ("[run]\nsimulate = 'torch'\n", "[run] simulate: expected a list of texts, got 'torch'"),
        ("[run]\ngo-on = 1\n", "[run] go-on: expected true or false, got 1"),
        ("[run\n", "squall.toml: "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_it_is_one_line(
    file: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ran(["run", SCRIPT], file, capsys)
    assert (code, out) == (2, "") and line in err
    assert err.rstrip().splitlines()[-1].startswith("squall: ")


def test_help_does_not_need_a_good_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(["run", "--help"], "[run", capsys)[0] == 0


def test_the_file_of_the_docs_is_good(capsys: pytest.CaptureFixture[str]) -> None:
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    [block] = [each for each in blocks(page) if each.language == "toml"]
    Path(defaults.FILE).write_text(block.text, encoding="utf-8")
    assert defaults.default_map(command())["fuzz"] == {
        "faults": "rough",
        "jobs": "4",
        "stats": True,
    }


def test_a_command_has_eight_options_of_its_own_at_most() -> None:
    options = {
        name: {each.name for each in one.params if each.param_type_name == "option"}
        for name, one in command().commands.items()
    }
    used = Counter(each for names in options.values() for each in names)
    own = {name: [each for each in names if used[each] == 1] for name, names in options.items()}
    assert not {name: names for name, names in own.items() if len(names) > 8}
