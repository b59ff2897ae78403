"""docs/issues.md."""

from __future__ import annotations

from collections import Counter

from squall.properties.findings.results import NO_LINE, load, version_key
from squall.properties.issues.issue import STOCK, Issue, issues
from squall.properties.support.paths import DOCS

PAGE = DOCS / "issues.md"

HEAD = """\
# Public issues, played again

This page is made of [properties/issues/](../properties/issues): do not edit it,
`python -m squall.properties.issues page` writes it.

Issues of `DistributedDataParallel`, FSDP, pipelines, DTensor, distributed checkpoints and process groups, each as a script
of at most 50 lines with the model and the calls that the report has, on gloo instead of NCCL. Each was run with real
processes on stock PyTorch, {version}, and with squall:

    torchrun --standalone --nproc-per-node N properties/issues/scripts/NAME.py
    squall run properties/issues/scripts/NAME.py --workers N --engine torch

*reproduced* is what stock PyTorch still does; *mended* what it no longer does, in that version or an earlier one; *not reproduced*
what this script does not show there, with what was tried. "squall" is the outcome of `squall run`: in *mismatch*,
*replicas differ* and *gradients differ* it tells what is wrong by itself, with both places in the script; with *ok* it does as stock PyTorch
does, and the script alone says that it is wrong: errors that PyTorch raises, and values of a
DTensor or a checkpoint, of which squall knows no right ones. *not checked*: there was nothing that it could
judge, no collective or no backward pass with a reference.
"""


def text() -> str:
    """The page. Raises :class:`squall.properties.issues.issue.IssueError`."""
    results = load(STOCK)
    version = max(results, key=version_key)
    lines = {name: result.stock for name, result in results[version].items()}
    found = issues()
    counts = Counter(one.verdict.verdict for one in found)
    summed = ", ".join(
        f"{counts[name]} {name}" for name in ("reproduced", "mended", "not reproduced")
    )
    rows = ["| issue | what | on stock | squall | |", "|---|---|---|---|---|"]
    rows += [_row(one, lines.get(one.name, NO_LINE)) for one in found]
    head = HEAD.format(version=version)
    return "\n".join([head, f"{len(found)} issues: {summed}.\n", *rows]) + "\n"


def _row(one: Issue, line: str) -> str:
    verdict = one.verdict
    folder = f"../properties/findings/{verdict.finding}/README.md"
    became = f" [Finding]({folder})." if verdict.finding else ""
    cells = [
        f"[{one.repository.partition('/')[2]}#{one.number}]({one.url})",
        f"[{_escaped(one.title)}](../properties/issues/scripts/{one.name}.py)",
        f"{verdict.verdict}: {_escaped(line)}",
        verdict.squall,
        f"{_escaped(verdict.note)}.{became}",
    ]
    return f"| {' | '.join(cells)} |"


def _escaped(words: str) -> str:
    for sign in "\\|_*[]<>":
        words = words.replace(sign, f"\\{sign}")
    return words


def write() -> None:
    PAGE.write_text(text(), encoding="utf-8")
