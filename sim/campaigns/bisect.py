"""Which commit brought a failure: ``git bisect``, with a replay of its scenario at each step.

All happens in a temporary clone that shares the objects of the repository, which itself is not
touched: no worktree, no reference, no file of it. Commits run with this interpreter and what is
installed for it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from squall.sim.scenario import Scenario
from squall.sim.scenarios.file import dump_scenario

#: whether a commit shows the failure; "skip" is one that cannot say
Answer = Literal["good", "bad", "skip"]
#: real seconds that a replay may take
SECONDS = 300.0
_FIRST = re.compile(r"^([0-9a-f]{40}) is the first bad commit$", re.MULTILINE)
_COMMIT = re.compile(r"^([0-9a-f]{40})\b", re.MULTILINE)
#: the outcomes of a replay that has come to its end, and in which nothing broke
_WELL = ("ok", "not checked")


class BisectError(Exception):
    """There is nothing to be found: why, in one sentence. ``field``: what is wrong."""

    def __init__(self, field: str, value: str, problem: str) -> None:
        super().__init__(problem)
        self.field, self.value = field, value


class Commit(NamedTuple):
    """``name``: 40 hex digits."""

    name: str
    subject: str

    def __str__(self) -> str:
        return f"{self.name[:12]} {self.subject}"

    def to_json(self) -> dict[str, str]:
        return {"commit": self.name, "subject": self.subject}


class TriedCommit(NamedTuple):
    """A commit that was tried. ``why``: what came of the replay, in a few words."""

    commit: Commit
    answer: Answer
    why: str

    def to_json(self) -> dict[str, Any]:
        return {**self.commit.to_json(), "answer": self.answer, "why": self.why}


@dataclass
class Bisection:
    """``first``: the commit that brought it; None if it is one of the ``candidates``, since those
    between cannot run the scenario."""

    first: Commit | None
    candidates: list[Commit]
    steps: list[TriedCommit]


def bisect(
    scenario: Scenario,
    *,
    good: str,
    bad: str = "HEAD",
    repository: Path,
    seconds: float = SECONDS,
    on_step: Callable[[TriedCommit], object] = lambda step: None,
) -> Bisection:
    """The first commit after ``good``, up to ``bad``, that shows what ``scenario`` expects.

    ``on_step`` is called after each replay, those of ``good`` and ``bad`` first. Raises BisectError.
    """
    root, first, last = commits(repository, good=good, bad=bad)
    with tempfile.TemporaryDirectory(prefix="squall-bisect-") as folder:
        tree = Path(folder, "tree")
        clone = ("clone", "--quiet", "--shared", "--no-checkout", str(root), str(tree))
        _git(Path(folder), *clone, field="--repository")
        file = Path(folder, "scenario.json")
        file.write_text(dump_scenario(scenario), encoding="utf-8")
        return _Search(scenario, tree, file, seconds, on_step).run(first, last)


def commits(repository: Path, *, good: str, bad: str) -> tuple[Path, str, str]:
    """The root of a repository, and two of its commits by their 40 digits. Raises BisectError."""
    root = Path(_git(repository, "rev-parse", "--show-toplevel", field="--repository").strip())
    ends = []
    for field, text in (("--good", good), ("--bad", bad)):
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")
        problem = f"there is no commit {text!r} in {root}"
        ends.append(_git(root, *words, field=field, value=text, problem=problem).strip())
    return root, ends[0], ends[1]


class _Search:
    def __init__(
        self,
        scenario: Scenario,
        tree: Path,
        file: Path,
        seconds: float,
        on_step: Callable[[TriedCommit], object],
    ) -> None:
        self._expected, self._tree, self._file = scenario.expected, tree, file
        self._seconds, self._on_step = seconds, on_step
        self._steps: list[TriedCommit] = []

    def run(self, good: str, bad: str) -> Bisection:
        base = subprocess.run(
            ["git", "-C", str(self._tree), "merge-base", "--is-ancestor", good, bad],
            capture_output=True,
        )
        if base.returncode or good == bad:
            problem = f"expected a commit from which {bad[:12]} comes, got {good[:12]}"
            raise BisectError("--good", good, problem)
        for name, wanted in ((bad, "bad"), (good, "good")):
            self._git("checkout", "--quiet", "--force", "--detach", name)
            self._check_end(self._step(name), wanted)
        said = self._git("bisect", "start", bad, good)
        while (found := _FIRST.search(said)) is None:
            if "commits left to test" in said:  # all of them were skipped
                names = _COMMIT.findall(said)
                return Bisection(None, [self._commit(name) for name in names], self._steps)
            step = self._step(self._git("rev-parse", "HEAD").strip())
            said = self._git("bisect", step.answer)
        return Bisection(self._commit(found[1]), [], self._steps)

    def _check_end(self, step: TriedCommit, wanted: str) -> None:
        field, name = f"--{wanted}", step.commit.name
        if step.answer == wanted:
            return
        if step.answer == "skip":
            problem = f"{step.commit} cannot replay the scenario: {step.why}"
        elif wanted == "good":
            problem = f"{step.commit} shows the failure too, expected a commit before it"
        else:
            problem = f"{step.commit} does not show the failure"
        raise BisectError(field, name, problem)

    def _step(self, name: str) -> TriedCommit:
        step = TriedCommit(self._commit(name), *self._replayed())
        self._steps.append(step)
        self._on_step(step)
        return step

    def _commit(self, name: str) -> Commit:
        return Commit(name, self._git("show", "--no-patch", "--format=%s", name).strip())

    def _replayed(self) -> tuple[Answer, str]:
        """What the checked out commit says of the scenario."""
        # Files of one second and one size would be taken for those that were compiled before.
        environment = os.environ | {
            "PYTHONPATH": str(self._tree),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SQUALL_STORE": str(self._tree.parent / "store"),
        }
        command = [sys.executable, "-P", "-m", "squall", "replay", str(self._file), "--json"]
        try:
            ended = subprocess.run(
                [*command, "--allow-scripts"] if self._is_script else command,
                cwd=self._tree.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=self._seconds,
            )
        except subprocess.TimeoutExpired:
            if self._expected.property == "progress":
                return "bad", f"no end within {self._seconds:g} s"
            return "skip", f"no end within {self._seconds:g} s"
        try:
            return self._answer(json.loads(ended.stdout))
        except (ValueError, KeyError, TypeError):
            last = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
            return "skip", last[:200]

    @property
    def _is_script(self) -> bool:
        return '"script"' in self._file.read_text(encoding="utf-8")

    def _answer(self, told: dict[str, Any]) -> tuple[Answer, str]:
        outcome = told["outcome"]
        broken = [(each["property"], each["what"]) for each in told["violations"]]
        if self._expected.property is None:  # a script that failed by itself
            same = outcome == self._expected.outcome
        else:
            same = (self._expected.property, self._expected.what) in broken
        if same:
            return "bad", outcome if not broken else ": ".join(broken[0])
        if outcome in _WELL and not broken:
            return "good", outcome
        return "skip", f"something else breaks there: {': '.join(broken[0]) if broken else outcome}"

    def _git(self, *words: str) -> str:
        ended = _run(self._tree, *words)
        if ended.returncode and words[0] != "bisect":
            raise BisectError("--repository", str(self._tree), _last(ended))
        return ended.stdout


def _git(folder: Path, *words: str, field: str, value: str = "", problem: str = "") -> str:
    ended = _run(folder, *words)
    if ended.returncode:
        raise BisectError(field, value or str(folder), problem or _last(ended))
    return ended.stdout


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Git, in English."""
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *words],
            env=os.environ | {"LC_ALL": "C"},
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        raise BisectError("--repository", str(folder), "there is no program git") from None


def _last(ended: subprocess.CompletedProcess[str]) -> str:
    lines = ended.stderr.strip().splitlines() or [f"git ended with {ended.returncode}"]
    return lines[-1].removeprefix("fatal: ")
