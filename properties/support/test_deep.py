"""``make test-deep``: its shares, what it says afterwards, and the table of its page."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from squall.properties.support import deep
from squall.properties.support.deep import Deep, commit_of, main, with_line
from squall.properties.support.paths import DOCS, PROPERTIES, ROOT
from squall.sim.campaigns.parts.tests import TIMES_VARIABLE

CAMPAIGN = """
[parts.tests]
paths = ["suite"]
[parts.canaries]
bugs = ["call-not-recorded", "release-only-here", "delays-double"]
seeds = 1
"""
SUITE = """
import pytest

@pytest.mark.parametrize("n", [1, 2, 3])
def test_some(n):
    if n == 3:
        pytest.skip("for a reason")

def test_bad():
    assert 1 == 2
"""
TABLE = "# A page\n\n" + deep._HEAD + "\n|---|---|---|---|---|---|---|\n"


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / ".squall"))
    monkeypatch.setenv(TIMES_VARIABLE, "")  # which main sets: it is put back
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "test_it.py").write_text(SUITE, encoding="utf-8")
    (tmp_path / "suite" / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "campaign.toml").write_text(CAMPAIGN, encoding="utf-8")
    (tmp_path / "page.md").write_text(TABLE, encoding="utf-8")
    return tmp_path


def play(folder: Path, *words: str) -> int:
    played = ["--played", str(folder / "campaign.toml"), "--page", str(folder / "page.md")]
    return main([*played, "--folder", str(folder / "build"), "--jobs", "1", *words])


def told(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        (folder / "build" / "deep.json").read_text(encoding="utf-8")
    )
    return found


def rows(folder: Path) -> list[list[str]]:
    text = (folder / "page.md").read_text(encoding="utf-8")
    assert text.startswith(TABLE)
    lines = text.removeprefix(TABLE).splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


@pytest.mark.deep("plays three campaigns")
def test_shares_come_to_what_the_whole_does(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(folder, "--no-shrink") == 1
    whole = told(folder)
    parts = whole["parts"]
    assert isinstance(parts, dict)
    counts = {name: (each["of"], each["passed"], each["failed"]) for name, each in parts.items()}
    assert counts == {"tests": (2, 1, 1), "canaries": (3, 2, 1)}
    assert whole["items"] == {"failed": 1, "passed": 2, "skipped": 1}
    assert whole["shard"] is None
    failures = whole["failures"]
    assert isinstance(failures, list)
    assert {each["replay"] for each in failures} == {
        "python -m pytest test_it.py::test_bad",
        "squall mutants delays-double --seeds 0:1",
    }
    said = capsys.readouterr().out
    assert "  again: python -m pytest test_it.py::test_bad" in said
    ((date, commit, tests, others, _, _, failed),) = rows(folder)
    assert date == str(whole["date"]).split()[0]
    assert (tests, others, failed) == ("4", "3", "2") and len(commit.strip("`+")) == 12

    assert [play(folder, "--shard", f"{n}/2", "--no-shrink") for n in (1, 2)] == [1, 1]
    assert told(folder)["shard"] == "2/2"
    assert len(rows(folder)) == 1, "a share is not the whole"
    for file in (folder / "build" / "deep").glob("*.sqlite"):
        if "of2" not in file.name:
            file.unlink()
    assert play(folder, "--shard", "merge") == 1
    merged = told(folder)
    for name in ("verdicts", "items", "failures", "outcome"):
        assert merged[name] == whole[name]
    assert len(rows(folder)) == 1, "instead of what was said of the commit before"


@pytest.mark.deep("plays a campaign twice")
def test_it_goes_on_where_it_was(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert play(folder, "--no-shrink") == 1
    first = told(folder)
    capsys.readouterr()
    assert play(folder, "--no-shrink") == 1
    again = told(folder)
    assert again["verdicts"] == first["verdicts"]
    assert len(rows(folder)) == 1


@pytest.mark.parametrize("words", [["--shard", "0/2"], ["--shard", "3/2"], ["--jobs", "many"]])
def test_what_is_no_share(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "expected a" in capsys.readouterr().err


def test_a_share_is_one_of_a_campaign() -> None:
    share = Deep("abc", "2/6", Path("build"))
    words = share.words(Path("x.toml"), "ray", 2, ["--ray-address", "auto"])
    assert words[words.index("--index") :][:2] == ["--index", "1/6"]
    assert words[-4:] == ["--on", "ray", "--ray-address", "auto"]
    assert share.file(".sqlite") == Path("build/deep/abc.2of6.sqlite")
    assert Deep("abc", "", Path("build")).file(".sqlite") == Path("build/deep/abc.sqlite")


def test_changes_make_another_name(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    file = tmp_path / "a.py"
    file.write_text("1\n", encoding="utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "first")
    clean = commit_of(tmp_path)
    assert "+" not in clean
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "deep.md").write_text("written by the last one\n", encoding="utf-8")
    git(tmp_path, "add", ".")
    assert commit_of(tmp_path) == clean
    file.write_text("2\n", encoding="utf-8")
    changed = commit_of(tmp_path)
    assert changed.startswith(f"{clean}+") and commit_of(tmp_path) == changed
    file.write_text("3\n", encoding="utf-8")
    assert commit_of(tmp_path) != changed


def test_the_page_has_the_table() -> None:
    text = (DOCS / "deep.md").read_text(encoding="utf-8")
    line = "| 2026-11-28 | `abc+` | 7 | 8 | 1, CPU 2 | 2 cores, pool | none |"
    result = {
        "commit": "abc+123456",
        "date": "2026-11-28 01:02",
        "parts": {
            "tests": {"kind": "tests", "judged": 3, "failed": 0},
            "saved": {"kind": "saved", "judged": 8, "failed": 0},
        },
        "items": {"passed": 6, "skipped": 1},
        "minutes": {"wall": 1.2, "cpu": 2.1},
        "cores": 2,
        "on": "pool",
        "regressions": [],
    }
    assert with_line(text, result) == f"{text.rstrip()}\n{line}\n"
    assert with_line(with_line(text, result), result) == with_line(text, result)


def test_tests_that_are_left_to_other_parts_are_there() -> None:
    said = tomllib.loads((PROPERTIES / "deep.toml").read_text(encoding="utf-8"))["parts"]["tests"]
    left = [each for each in said["options"] if "::" in each]
    assert len(left) == 2
    for name in left:
        file, _, test = name.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")
