"""A finding as the bug report that pytorch/pytorch's form asks for.

A folder ``NAME/issue/`` holds what the page of the finding does not:

``text.md``
    the title and what happens; ``## Expected``; ``## Actual``, with what ``repro.py`` says between backticks;
    ``## Documentation``, the sentence that does not hold and its page; ``## Since``; and ``## Patch``, whether it was tried
``repro.py``
    at most 25 lines that end with an ``assert``, which fails
``mend.patch``
    a change of PyTorch's sources, in git's format
``case.py``
    a test in the style of PyTorch's own, which can be run
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from squall.properties.findings.finding import Finding, findings, sections
from squall.properties.findings.run import output

#: lines of ``repro.py`` that are not blank
MOST_LINES = 25
PARTS = ("Expected", "Actual", "Documentation", "Since", "Patch")
#: seconds that ``repro.py`` may take
LIMIT_S = 120.0


class NotShownError(RuntimeError):
    """The script does not fail here: there is nothing to report."""


@dataclass(frozen=True)
class Issue:
    """What a folder has for a report."""

    finding: Finding

    @property
    def folder(self) -> Path:
        return self.finding.folder / "issue"

    @property
    def repro(self) -> Path:
        """The short script."""
        return self.folder / "repro.py"

    @property
    def patch(self) -> Path:
        """What would mend it."""
        return self.folder / "mend.patch"

    @property
    def case(self) -> Path:
        """A test for PyTorch's own suite."""
        return self.folder / "case.py"

    def parts(self) -> tuple[str, str, dict[str, str]]:
        """The title, what happens, and the rest by its heading."""
        before, rest = sections((self.folder / "text.md").read_text("utf-8"))
        title, _, what = before.removeprefix("# ").partition("\n")
        return title, what.strip(), rest

    def failures(self) -> list[str]:
        """What ``repro.py`` is said to fail with, one of them: errors, and signals that end it."""
        said = re.findall(r"`((?:\w*Error|SIG[A-Z]+)\b.*?)`", self.parts()[2]["Actual"])
        assert said, f"{self.folder}/text.md: Actual quotes no error"
        return said


def issues() -> dict[str, Issue]:
    """Those that are ready, by name."""
    return {one.name: Issue(one) for one in findings() if (one.folder / "issue").is_dir()}


def report(issue: Issue) -> str:
    """The report. The script is run for it, and the environment described.

    Raises:
        NotShownError: the script does not fail here
    """
    code, printed = output([str(issue.repro)], limit_s=LIMIT_S)
    if not code:
        why = "did not end" if code is None else "does not fail on this torch"
        raise NotShownError(f"{issue.finding.name}: {issue.repro} {why}")
    title, what, parts = issue.parts()
    page = sections(issue.finding.page.read_text("utf-8"))[1]
    told = [
        f"# {title}\n",
        f"### 🐛 Describe the bug\n\n{what}\n",
        _code("python", issue.repro.read_text("utf-8")),
        *(f"**{head}**\n\n{parts[head]}\n" for head in ("Expected", "Actual")),
        _code("", _without_paths(printed, issue.folder)),
        *(f"**{head}**\n\n{parts[head]}\n" for head in ("Documentation", "Since")),
        f"**Cause**\n\n{page['Cause']}\n",
        f"**Patch**\n\n{parts['Patch']}\n",
        _code("diff", issue.patch.read_text("utf-8")),
        "**Test**\n",
        _code("python", issue.case.read_text("utf-8")),
    ]
    if "Reports" in page:
        told.append(f"**Related**\n\n{page['Reports']}\n")
    told.append(f"### Versions\n\n{_code('', _environment())}")
    return "\n".join(told)


def _code(language: str, text: str) -> str:
    return f"```{language}\n{text.strip()}\n```\n"


def _without_paths(printed: str, folder: Path) -> str:
    """From the traceback on: what came before is warnings, and paths are of this machine."""
    traceback = printed[max(printed.rfind("Traceback (most recent call last)"), 0) :]
    return re.sub(r"/\S+/site-packages/", "", traceback.replace(f"{folder}/", ""))


def _environment() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "torch.utils.collect_env"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
