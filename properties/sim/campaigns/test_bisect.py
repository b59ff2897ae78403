"""The commit that brought a failure, in a small history on top of this checkout."""

import inspect
import json
import subprocess
from pathlib import Path

import pytest

from squall.properties.support.paths import ROOT
from squall.sim.campaigns.bisect import BisectError, bisect
from squall.sim.cli.main import main as run_command
from squall.sim.scenarios.failure import expecting
from squall.sim.scenarios.patch import find_function
from squall.sim.scenarios.store import Store
from squall.sim.search.draw import draw
from squall.sim.search.mutants.registry import MUTANTS
from squall.sim.search.replay_with_mutant import again

#: each commit that is tried is compiled anew
pytestmark = pytest.mark.timeout(1200)

#: a planted bug that the scenario of seed 0 shows
BUG = MUTANTS["call-not-recorded"]
FILE = Path("real", f"{BUG.place.partition(':')[0].replace('.', '/')}.py")


def git(folder, *words):
    name = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    done = subprocess.run(
        ["git", "-C", str(folder), *name, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder, subject, file, text):
    (folder / file).write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", subject)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A clone with commits on top of today's: one that changes nothing, one that cannot be imported,
    one with a bug, one after it. By their subjects."""
    folder = tmp_path_factory.mktemp("history") / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(folder)], check=True)
    # what is not committed yet belongs to the first
    folders = ("--", "real", "model", "sim")
    changed = git(ROOT, "diff", "--name-only", "HEAD", *folders).splitlines()
    changed += git(ROOT, "ls-files", "--others", "--exclude-standard", *folders).splitlines()
    for file in filter(lambda file: (ROOT / file).exists(), changed):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes((ROOT / file).read_bytes())
    source = (folder / FILE).read_text(encoding="utf-8")
    right = inspect.getsource(find_function(BUG.place))
    assert source.count(right) == right.count(BUG.old) == 1
    broken = source.replace(right, right.replace(BUG.old, BUG.new))
    names = {"before": commit(folder, "before", "note.txt", "nothing\n")}
    names["no Python"] = commit(folder, "no Python", FILE, "this is no Python\n")
    names["the bug"] = commit(folder, "the bug", FILE, broken)
    names["after"] = commit(folder, "after", "note.txt", "nothing else\n")
    return folder, names


@pytest.fixture(scope="module")
def failing():
    scenario = draw(0)
    with BUG.apply():
        return expecting(scenario, again(scenario))


@pytest.mark.deep("starts an interpreter for each commit")
def test_the_commit_that_brought_it(history, failing, tmp_path, capsys, monkeypatch):
    folder, names = history
    git(folder, "checkout", "--quiet", "--detach", names["the bug"])
    newer = [commit(folder, f"later {n}", "note.txt", f"{n}\n") for n in range(3)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SQUALL_STORE", raising=False)
    kept = Store().keep(failing, found_by="campaign")
    words = ["--good", names["no Python"] + "~1", "--repository", str(folder), "--json"]
    with pytest.raises(SystemExit) as ended:
        run_command(["bisect", kept.name, *words])
    said = capsys.readouterr()
    report = json.loads(said.out)
    # nobody knows whether the commit that cannot be imported had the bug
    assert ended.value.code == 4, said
    assert report["outcome"] == "not decided"
    assert {each["commit"] for each in report["candidates"]} == {
        names["no Python"],
        names["the bug"],
    }
    answers = {each["commit"]: each["answer"] for each in report["steps"]}
    assert answers[newer[-1]] == "bad"
    assert answers[names["before"]] == "good"
    assert answers[names["no Python"]] == "skip"
    assert report["tried"] == len(report["steps"])
    assert f"good {names['before'][:12]} before (ok)" in said.err
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "worktree", "list").count("\n") == 0


@pytest.mark.deep("starts an interpreter for each commit")
def test_a_history_that_all_can_run(history, failing, tmp_path):
    folder, names = history
    git(folder, "checkout", "--quiet", "--detach", names["before"])
    commit(folder, "harmless", "note.txt", "1\n")
    broken = git(folder, "show", f"{names['the bug']}:{FILE}") + "\n"
    bug = commit(folder, "brings it", FILE, broken)
    last = commit(folder, "last", "note.txt", "2\n")
    found = bisect(failing, good=names["before"], bad=last, repository=folder)
    assert found.first is not None
    assert (found.first.name, found.first.subject) == (bug, "brings it")
    assert [step.answer for step in found.steps[:2]] == ["bad", "good"]


@pytest.mark.deep("starts an interpreter for each commit")
def test_commits_between_which_there_is_nothing_to_find(history, failing, tmp_path):
    folder, names = history
    bug, last = names["the bug"], names["after"]
    for good, bad, field, problem in (
        ("nowhere", last, "--good", "there is no commit 'nowhere' in"),
        (names["before"], "nowhere", "--bad", "there is no commit 'nowhere' in"),
        (last, names["before"], "--good", "expected a commit from which"),
        (bug, last, "--good", "shows the failure too"),
        (f"{names['before']}~1", names["before"], "--bad", "does not show the failure"),
        (names["before"], names["no Python"], "--bad", "cannot replay the scenario: "),
    ):
        with pytest.raises(BisectError, match=problem) as raised:
            bisect(failing, good=good, bad=bad, repository=folder)
        assert raised.value.field == field
    with pytest.raises(BisectError, match="not a git repository"):
        bisect(failing, good=bug, repository=tmp_path)


def test_a_scenario_in_which_nothing_breaks(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run_command(["bisect", "0", "--good", "HEAD~1"])
    assert ended.value.code == 2
    assert "FAILURE: nothing breaks in '0'" in capsys.readouterr().err
