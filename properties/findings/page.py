"""docs/findings.md, and in each finding's README what its scripts printed."""

from __future__ import annotations

import re
from pathlib import Path

from squall.properties.findings.finding import Finding, findings
from squall.properties.findings.results import Results, load, version_key
from squall.properties.support.paths import DOCS

PAGE = DOCS / "findings.md"
FOLDERS = "../properties/findings"
#: the two parts of a README that are made
_FILES = re.compile(r"\A\n\[.*\[all findings\]\(.*\)\n")
_SAID = re.compile(r"^On torch [\d.]+:\n\n(?: {4}.*\n)+\n", re.M)

HEAD = """\
# What squall finds in PyTorch

This page is made of the folders of [properties/findings/](../properties/findings): do not edit it,
`python -m squall.properties.findings page` writes it.

Each finding has a page of its own, with what PyTorch does, the lines that cause it, what would mend it and the
public reports of it. It is the README of a folder, and beside it is what shows the finding:

- `stock.py` is plain PyTorch with real processes (TensorPipe, gloo). It uses nothing of squall, and prints one
  line that begins with `BUG` or `OK`.
- `control.py` is the same computation in one process with plain autograd, where there is such a thing.
- `scenario.json` is the same under squall.

To run them:

    python properties/findings/NAME/stock.py                 on the torch that is installed
    squall replay properties/findings/NAME/scenario.json     on the simulated network
    make findings TORCH=2.15.0                               all of them on a torch of their own

The worst come first: gradients that are silently wrong, other values and effects that are wrong, memory, hangs,
leaks, misleading errors. Then come those that need names of PyTorch which begin with an underscore, and last what
only squall's agent can show. The columns of versions say what `stock.py` printed there, and "one process" what
`control.py` printed. An empty field means that it was not run, or that there is no such script. Where a page
names no public report, a search found none, which is not proof.
"""

WITHDRAWN = """\
## Withdrawn

| name | why it is no finding |
|---|---|
"""

#: what was reported here once, and is not so
NO_FINDINGS = {
    "gradient-stolen": "two leaves that share one gradient, seen when passes repeat: one process with "
    "plain `loss.backward(retain_graph=True)` does the same. It is the local engine's: "
    "[#34082](https://github.com/pytorch/pytorch/issues/34082)",
    "view-grad-fn": "a thread that reads `grad_fn` of a view whose base was changed in place, and a call that "
    "carries that view, wait for each other for ever: two threads in one process, one of which reads while "
    "the other computes with such views, do the same within seconds. It is the local engine's",
    "creation-never-comes": "a hang at shutdown after a creation that was lost: TensorPipe's `join` waits "
    "for the calls that a worker made, not for those it serves",
}


def pages() -> dict[Path, str]:
    """The text of the page with the table, and of the page of each finding."""
    results = load()
    found = findings()
    rows = [f"| `{name}` | {why} |" for name, why in sorted(NO_FINDINGS.items())]
    table = "\n".join([HEAD, _table(found, results), WITHDRAWN + "\n".join(rows) + "\n"])
    return {PAGE: table, **{one.page: _page(one, results) for one in found}}


def write() -> None:
    """Write those that are out of date."""
    for file, text in pages().items():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def _table(found: list[Finding], results: Results) -> str:
    versions = sorted(results, key=version_key)
    heads = [
        "finding",
        "what",
        "kind",
        *(f"torch {version}" for version in versions),
        "one process",
    ]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for one in found:
        apart = ", private names" if one.facts.private_api else ""
        apart += "" if one.stock else ", only under squall"
        page = f"{FOLDERS}/{one.name}/{one.page.name}"
        cells = [f"[{one.name}]({page})", one.title, one.facts.severity + apart]
        ran = [results[version].get(one.name) for version in versions]
        cells += ["" if result is None else result.word for result in ran]
        controls = {result.control.partition(" ")[0] for result in ran if result and result.control}
        cells.append(" or ".join(sorted(controls)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _page(one: Finding, results: Results) -> str:
    """Its README, with links to its files and with what its scripts printed on the newest torch."""
    title, _, text = one.page.read_text(encoding="utf-8").partition("\n")
    files = [file.name for file in (one.stock, one.control, one.scenario) if file]
    links = ", ".join(f"[{name}]({name})" for name in files)
    text = f"\n{links}; [all findings](../../../docs/findings.md)\n{_FILES.sub('', text)}"
    said = _said(one, results)
    if _SAID.search(text):
        text = _SAID.sub(lambda _: said, text)
    else:
        text = text.replace("## Cause\n", f"{said}## Cause\n", 1)
    return f"{title}\n{text}"


def _said(one: Finding, results: Results) -> str:
    ran = [version for version in sorted(results, key=version_key) if one.name in results[version]]
    if not ran:
        return ""
    result = results[ran[-1]][one.name]
    control = f"    {result.control}   (one process)\n" if result.control else ""
    return f"On torch {ran[-1]}:\n\n    {result.stock}\n{control}\n"
