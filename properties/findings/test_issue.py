"""Reports of findings: short scripts that fail as told, patches that mend, names that are not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.properties.findings.issue import LIMIT_S, MOST_LINES, PARTS, Issue, issues
from squall.properties.findings.patched import changed
from squall.properties.findings.run import output
from squall.properties.support.commands import squall

READY = issues()
PATCHED = Path(__file__).with_name("patched.py")
#: those whose patch is of files that need not be compiled
IN_PYTHON = {
    name: one for name, one in READY.items() if ".cpp" not in one.patch.read_text(encoding="utf-8")
}


@pytest.mark.parametrize("issue", READY.values(), ids=READY)
def test_a_report_has_all_its_parts(issue: Issue) -> None:
    title, what, parts = issue.parts()
    assert title and what and tuple(parts) == PARTS
    assert "> " in parts["Documentation"] and "https://docs.pytorch.org/" in parts["Documentation"]
    script = issue.repro.read_text("utf-8")
    assert len([line for line in script.splitlines() if line.strip()]) <= MOST_LINES
    assert "assert " in script and "os._exit" not in script
    assert "self.assert" in issue.case.read_text("utf-8")
    for file in (issue.repro, issue.case):
        compile(file.read_text("utf-8"), str(file), "exec")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("issue", READY.values(), ids=READY)
def test_the_script_fails_as_told(issue: Issue) -> None:
    code, printed = output([str(issue.repro)], limit_s=LIMIT_S)
    assert code == 1, printed
    assert any(each in printed for each in issue.failures()), printed


@pytest.mark.sampled(1)
@pytest.mark.parametrize("issue", IN_PYTHON.values(), ids=IN_PYTHON)
def test_the_script_passes_with_the_patch(issue: Issue) -> None:
    code, printed = output([str(PATCHED), str(issue.patch), str(issue.repro)], limit_s=LIMIT_S)
    assert code == 0, printed


def test_a_patch_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    patch = tmp_path / "other.patch"
    patch.write_text(
        IN_PYTHON["train-false-trains"]
        .patch.read_text(encoding="utf-8")
        .replace("return self", "no"),
        encoding="utf-8",
    )
    with pytest.raises(ValueError, match="does not fit to"):
        changed(patch)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("issue", "sparse-than-dense"), "did you mean sparse-then-dense"),
        (("issue", "nothing of the kind"), "there is no finding 'nothing of the kind'"),
        (("issue", "second-pass"), "has no report yet, expected one of "),
        (("issue",), "NAME: expected one of "),
        (("issues",), "WHAT: expected issue, got 'issues'"),
    ],
)
def test_a_report_that_there_is_not(words: tuple[str, ...], said: str) -> None:
    done = squall("findings", *words)
    assert done.returncode == 2 and said in done.stderr and not done.stdout
