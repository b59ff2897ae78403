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
_SAID = re.compile(r"(?:^On torch [\d.]+:\n\n(?: {4}.*\n)+\n)+", re.M)

HEAD = """\
# What squall finds in PyTorch

This page is made of the folders of [properties/findings/](../properties/findings): do not edit it,
`python -m squall.properties.findings page` writes it.

PyTorch says of `torch.distributed.rpc` that its APIs "are stable and in maintenance mode". So what is found here is
small and stays: the columns of four releases hardly differ, a report may wait for long, and a mend has a chance
if it is a few lines with a test. `squall findings issue NAME` writes such reports, of those that are ready.

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
leaks, errors that mislead or are missing, and differences from one process that PyTorch means to have. Then come
those that need names of PyTorch which begin with an underscore, and last what only squall's agent can show. "Its
words" says what PyTorch's documentation says: it promises something else, it describes what happens, or it is so by
design. The sentences stand below the table. The columns of versions say what `stock.py` printed there, and
"one process" what `control.py` printed. An empty field means that it was not run, or that there is no such script. Where a page
names no public report, a search found none, which is not proof.
"""

SENTENCES = """\
## PyTorch's own words

The sentence stands at the name before the colon, in [rpc](https://docs.pytorch.org/docs/stable/rpc.html),
[futures](https://docs.pytorch.org/docs/stable/futures.html) or
[distributed.optim](https://docs.pytorch.org/docs/stable/distributed.optim.html).

| finding | | sentence |
|---|---|---|
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
    said = [
        f"| {_link(one.name)} | {one.facts.words} | {_escaped(one.facts.sentence)} |"
        for one in found
        if one.facts.words
    ]
    parts = [SENTENCES + "\n".join(said), WITHDRAWN + "\n".join(rows)]
    table = "\n".join([HEAD, _table(found, results), *(f"{part}\n" for part in parts)])
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
        "its words",
        *(f"torch {version}" for version in versions),
        "one process",
    ]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for one in found:
        apart = ", private names" if one.facts.private_api else ""
        apart += "" if one.stock else ", only under squall"
        cause = one.facts.same_cause_as
        title = one.title + (f" (same cause as {_link(cause)})" if cause else "")
        cells = [_link(one.name), title, one.facts.severity + apart, one.facts.words or ""]
        ran = [results[version].get(one.name) for version in versions]
        none = "" if one.stock else "no script"
        cells += [none if result is None else result.word for result in ran]
        controls = {result.control.partition(" ")[0] for result in ran if result and result.control}
        cells.append(" or ".join(sorted(controls)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _link(name: str) -> str:
    return f"[{name}]({FOLDERS}/{name}/README.md)"


def _escaped(sentence: str) -> str:
    return re.sub(r"([*_\[\]|])", r"\\\1", sentence)


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
    told = [ran[-1]]
    before = [version for version in ran if results[version][one.name].word == "BUG"]
    if before and before[-1] != ran[-1]:
        told.insert(0, before[-1])
    text = ""
    for version in told:
        result = results[version][one.name]
        control = f"    {result.control}   (one process)\n" if result.control else ""
        text += f"On torch {version}:\n\n    {result.stock}\n{control}\n"
    return text
