"""Runs rows of the matrix, and keeps what came of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from pydantic import BaseModel, ConfigDict

from squall.properties.matrix.environments import MissingError, python_of
from squall.properties.matrix.rows import REFERENCE, Row
from squall.properties.support.paths import ROOT

RESULTS = Path(__file__).with_name("results.json")
_WRITTEN = ("docs/proven.md", "properties/matrix/results.json")
_NOBODY = 65534


class Suite(BaseModel):
    """What became of the test suite."""

    model_config = ConfigDict(extra="forbid")

    passed: int
    skipped: int
    failed: list[str]


class Result(BaseModel):
    """What became of a row.

    ``differ``: names of scenarios whose digests are not those of the first row; ``texts`` those
    that differ in what torch decides alone. ``missing``: why it did not run.
    """

    model_config = ConfigDict(extra="forbid")

    commit: str
    day: str
    digests: int = 0
    differ: list[str] = []
    texts: list[str] = []
    suite: Suite | None = None
    missing: str | None = None


Digests = dict[str, tuple[str, str]]


def load() -> dict[str, Result]:
    """What is kept, by row."""
    if not RESULTS.exists():
        return {}
    return {
        name: Result(**row) for name, row in json.loads(RESULTS.read_text(encoding="utf-8")).items()
    }


def save(name: str, result: Result) -> None:
    """Keep what came of a row, beside what came of the others."""
    kept = load() | {name: result}
    text = json.dumps({name: row.model_dump() for name, row in kept.items()}, indent=1)
    written = RESULTS.with_suffix(".new")
    written.write_text(text + "\n", encoding="utf-8")
    written.replace(RESULTS)


def digests_of(row: Row, seeds: int, only: str = "") -> Digests:
    """Digests of scenarios whose names begin with ``only``, under the conditions of a row.

    Raises :class:`MissingError` where it cannot be had, RuntimeError if it fails.
    """
    with _conditions(row) as (command, folder, environment):
        command += ["-m", "squall.properties.matrix.digests", "--seeds", str(seeds)]
        command += ["--only", only]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it wrote nothing"])[-1]
        raise RuntimeError(f"{row.name}: exit code {done.returncode}, {last}")
    return {name: (one, two) for name, (one, two) in json.loads(done.stdout).items()}


def run(row: Row, reference: Digests, seeds: int, *, suite: bool, jobs: str) -> Result:
    """Run a row, and compare it with the digests of the first."""
    # What is written here, row by row, is no change of what is measured.
    changed = _git("status", "--porcelain", "--", ".", *(f":!{path}" for path in _WRITTEN))
    commit = _git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    result = Result(commit=commit, day=time.strftime("%Y-%m-%d"))
    try:
        found = reference if row == REFERENCE else digests_of(row, seeds)
        result.digests = len(found)
        for name, (whole, without) in reference.items():
            theirs = found.get(name, ("", ""))
            if whole != theirs[0]:
                (result.texts if without == theirs[1] else result.differ).append(name)
        if suite:
            result.suite = run_suite(row, jobs)
    except (MissingError, RuntimeError) as error:
        result.missing = str(error)
    return result


def run_suite(row: Row, jobs: str) -> Suite:
    """The whole test suite under the conditions of a row."""
    with _conditions(row) as (command, folder, environment), tempfile.TemporaryDirectory() as at:
        os.chmod(at, 0o777)
        report = Path(at) / "report.xml"
        command += ["-m", "pytest", "-q", "-n", jobs, "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, f"--junit-xml={report}"], cwd=folder, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if not report.exists():
            raise RuntimeError(f"{row.name}: {done.stdout.strip().splitlines()[-1]}")
        cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [case for case in cases if {"failure", "error"} & {part.tag for part in case}]
    skipped = [case for case in cases if case.find("skipped") is not None]
    return Suite(
        passed=len(cases) - len(failed) - len(skipped),
        skipped=len(skipped),
        failed=[f"{case.get('classname')}.{case.get('name')}" for case in failed],
    )


@contextmanager
def _conditions(row: Row) -> Iterator[tuple[list[str], Path, dict[str, str]]]:
    """A command that starts Python, the folder to start it in, and its environment."""
    python = python_of(row)
    environment = {**os.environ, **row.variables}
    with tempfile.TemporaryDirectory(prefix="squall elsewhere ") as other:
        folder = ROOT
        command = [str(python)]
        if row.elsewhere or row.another_user:
            folder = Path(other) / "squall"
            _copy(folder)
            environment["PYTHONPATH"] = str(folder)
        if row.another_user:
            command = [*_as_nobody(), *command]
            home = Path(other) / "home"
            home.mkdir()
            environment |= {"HOME": str(home), "USER": "nobody", "LOGNAME": "nobody"}
            environment.pop("XDG_CACHE_HOME", None)
            os.chmod(other, 0o755)
            for path in [home, folder, *folder.rglob("*")]:
                os.chown(path, _NOBODY, _NOBODY, follow_symlinks=False)
        yield command, folder, environment


def _as_nobody() -> Sequence[str]:
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        raise MissingError("only root can run it as another user, with setpriv")
    # The interpreter may be in a folder that is root's alone: it may be read, and nothing else.
    only_read = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", *only_read]


def _copy(folder: Path) -> None:
    """What git knows of the repository, and a repository of its own, which some tests ask."""
    for name in _git("ls-files", "-co", "--exclude-standard").splitlines():
        if (source := ROOT / name).is_symlink() or source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name, follow_symlinks=False)
    author = ("-c", "user.name=matrix", "-c", "user.email=matrix@localhost")
    commit = ("commit", "-q", "--no-verify", "--allow-empty", "-m")
    for words in (["init", "-q"], ["add", "-A"], [*commit, "copied"], [*commit, "again"]):
        subprocess.run(["git", "-C", str(folder), *author, *words], check=True, capture_output=True)


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
    return done.stdout.strip()
