"""docs/findings.md, made of the folders and of what their scripts printed."""

from __future__ import annotations

import re

from squall.properties.findings.finding import Finding, Place, Report, findings
from squall.properties.findings.results import Results, load, version_key
from squall.properties.support.paths import DOCS

PAGE = DOCS / "findings.md"
FOLDERS = "../properties/findings"
OURS = "pytorch/pytorch"
SOURCE = f"https://github.com/{OURS}"

HEAD = """\
# What squall finds in PyTorch

This page is made from the folders of [properties/findings/](../properties/findings): do not edit it,
`python -m squall.properties.findings page` writes it.

Each finding is a folder: `stock.py`, plain PyTorch with real processes (TensorPipe, gloo) and nothing of squall,
prints one line that begins with `BUG` or `OK`; `control.py` is the same computation in one process with
plain autograd, where there is such a thing; `scenario.json` is the same under squall.

    python properties/findings/NAME/stock.py                 on the torch that is installed
    squall replay properties/findings/NAME/scenario.json     on the simulated network
    make findings TORCH=2.15.0                               all of them on a torch of their own

The worst come first: gradients that are silently wrong, other values and effects that are, memory, hangs,
leaks, misleading errors; those that need names of PyTorch which begin with an underscore come last. Lines are those of the commit that
is named. "Reports" are public issues and pull requests, of pytorch/pytorch where no other repository is named; where there are none, a search
found none, which is not proof.
"""

APART = """\
# Only under squall's agent

For these there is no script: each says why.
"""

WITHDRAWN = """\
# Withdrawn

| name | why it is no finding |
|---|---|
"""

#: what was reported here once, and is not so
NO_FINDINGS = {
    "gradient-stolen": "two leaves that share one gradient, seen when passes repeat: one process with "
    "plain `loss.backward(retain_graph=True)` does the same. It is the local engine's: #34082",
    "view-grad-fn": "a thread that reads `grad_fn` of a view whose base was changed in place, and a call that "
    "carries that view, wait for each other for ever: two threads in one process, one of which reads while "
    "the other computes with such views, do the same within seconds. It is the local engine's",
    "creation-never-comes": "a hang at shutdown after a creation that was lost: TensorPipe's `join` waits "
    "for the calls that a worker made, not for those it serves",
}


def page() -> str:
    """The text of the page."""
    results = load()
    found = findings()
    with_script = [one for one in found if not one.facts.only_under_squall]
    apart = [one for one in found if one.facts.only_under_squall]
    parts = [HEAD, _table(with_script, results)]
    parts += [_section(one, results) for one in with_script]
    if apart:
        parts += [APART, *(_section(one, results) for one in apart)]
    rows = [f"| `{name}` | {why} |" for name, why in sorted(NO_FINDINGS.items())]
    parts.append(WITHDRAWN + "\n".join(rows) + "\n")
    return "\n".join(parts)


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
        kind = f"{one.facts.severity}{', private names' if one.facts.private_api else ''}"
        cells = [f"[{one.name}](#{one.name})", one.facts.title, kind]
        ran = [results[version].get(one.name) for version in versions]
        cells += ["" if result is None else result.word for result in ran]
        controls = {result.control.partition(" ")[0] for result in ran if result and result.control}
        cells.append(" or ".join(sorted(controls)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _section(one: Finding, results: Results) -> str:
    facts = one.facts
    files = [one.stock, one.control, one.scenario]
    links = [f"[{file.name}]({FOLDERS}/{one.name}/{file.name})" for file in files if file]
    parts = [f"## {one.name}", f"{facts.title[0].upper()}{facts.title[1:]}. {', '.join(links)}"]
    if facts.only_under_squall:
        parts.append(f"*No script on stock:* {facts.only_under_squall}")
    parts.append(one.text["Stock"])
    if facts.no_scenario:
        parts.append(f"*Not under squall:* {facts.no_scenario}")
    said = _said(one, results)
    if said:
        parts.append(said)
    if facts.stock_varies:
        parts.append(f"Runs differ: {facts.stock_varies}")
    parts.append(f"*Cause.* {_links(one.text['Cause'])}")
    parts.append("\n".join(f"- {_place(place)}" for place in facts.causes))
    parts.append(f"*What would mend it.* {_links(one.text['Mend'])}")
    reports = "; ".join(map(_report, facts.reports))
    parts.append(f"*Reports.* {reports or 'none found'}.")
    if "Port" in one.text:
        parts.append(f"*The port.* {one.text['Port']}")
    return "\n\n".join(parts) + "\n"


def _said(one: Finding, results: Results) -> str:
    newest = [v for v in sorted(results, key=version_key) if one.name in results[v]]
    if not newest:
        return ""
    result = results[newest[-1]][one.name]
    lines = [f"    {result.stock}"] + [f"    {result.control}   (one process)"] * bool(
        result.control
    )
    return f"On torch {newest[-1]}:\n\n" + "\n".join(lines)


def _place(place: Place) -> str:
    url = f"{SOURCE}/blob/{place.commit}/{place.file}"
    line = "" if place.line is None else f", line {place.line}"
    anchor = "" if place.line is None else f"#L{place.line}"
    return f"[`{place.file}`]({url}{anchor}), `{place.function}`{line} at {place.commit[:12]}"


def _report(report: Report) -> str:
    if report.repository == OURS:
        return _links(f"#{report.number}: {report.says}")
    name = f"{report.repository}#{report.number}"
    url = f"https://github.com/{report.repository}/issues/{report.number}"
    return f"[{name}]({url}): {_links(report.says)}"


def _links(text: str) -> str:
    return re.sub(r"(?<![\w/])#(\d{3,})", rf"[#\1]({SOURCE}/issues/\1)", text)
