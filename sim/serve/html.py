"""The pages of ``squall serve``: the list, and two runs side by side."""

from __future__ import annotations

import html
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_STYLE = """
html { font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; color: #1f2430; }
body { margin: 0 auto; padding: 20px 24px; max-width: 1360px; }
body.wide { max-width: none; height: 100vh; box-sizing: border-box; display: flex; flex-direction: column; }
h1 { font-size: 20px; margin: 0 0 4px; } h2 { font-size: 15px; margin: 22px 0 6px; }
p { margin: 4px 0 10px; color: #6b7280; } a { color: #0072B2; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; color: #6b7280; font-weight: 500; border-bottom: 1px solid #e1e4e9; }
td, th { padding: 5px 10px 5px 0; vertical-align: top; } td.number { text-align: right; font-variant-numeric: tabular-nums; padding-right: 18px; }
tbody tr:hover { background: #f6f7f9; } code, td.mono { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
button { font: inherit; border: 1px solid #0072B2; background: #0072B2; color: #fff; border-radius: 6px; padding: 4px 14px; cursor: pointer; }
.bad { color: #9c3f00; } .pair { flex: 1; display: grid; grid-template-columns: 1fr 1fr; gap: 10px; min-height: 480px; }
iframe { width: 100%; height: 100%; border: 1px solid #e1e4e9; border-radius: 8px; }
.events td { border-bottom: 1px solid #f0f1f4; } tr.parts td { background: #fdf4ee; } tr.same td { color: #6b7280; }
.crumbs { margin: 0 0 6px; }
"""


@dataclass(frozen=True)
class Entry:
    """A scenario of the store, as the list shows it."""

    name: str
    #: the property that did not hold and what broke, or ""
    violated: str
    what: str
    seed: str
    profile: str
    workers: str
    operations: str
    faults: str
    found_at: float
    found_by: str

    @property
    def failed(self) -> bool:
        return bool(self.violated or self.what)


def document(title: str, body: str, *, wide: bool = False) -> str:
    """A whole page."""
    kind = ' class="wide"' if wide else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body{kind}>{body}</body></html>"
    )


def listing(entries: Sequence[Entry], folder: str) -> str:
    """The first page: failures, and other runs that are kept."""
    failures = [entry for entry in entries if entry.failed]
    runs = [entry for entry in entries if not entry.failed]
    parts = [
        "<h1>squall</h1>",
        f"<p>What is kept in <code>{html.escape(folder)}</code>. Nothing here changes it.</p>",
    ]
    if not entries:
        parts.append(
            "<p>There is nothing yet: <code>squall fuzz</code> keeps failures here, and "
            "<code>squall timeline SEED --keep</code> any run.</p>"
        )
        return document("squall", "".join(parts))
    parts.append('<form action="/compare" method="get">')
    for title, group in (("Failures", failures), ("Runs", runs)):
        if group:
            parts.append(f"<h2>{title} ({len(group):,})</h2>{_table(group)}")
    parts.append(
        "<p>Pick one run in column A and another in column B. "
        "<button>compare</button> shows them side by side from the event where they part.</p></form>"
    )
    return document("squall", "".join(parts))


def _table(entries: Sequence[Entry]) -> str:
    head = (
        "<tr><th>A</th><th>B</th><th>run</th><th>what broke</th><th>seed</th><th>profile</th>"
        "<th>workers</th><th>operations</th><th>faults</th><th>found</th><th>by</th></tr>"
    )
    return f"<table><thead>{head}</thead><tbody>{''.join(map(_row, entries))}</tbody></table>"


def _row(entry: Entry) -> str:
    name = html.escape(entry.name, quote=True)
    broke = ": ".join(part for part in (entry.violated, entry.what) if part)
    found = (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.found_at)) if entry.found_at else ""
    )
    cells = "".join(
        f'<td class="number">{html.escape(text)}</td>'
        for text in (entry.workers, entry.operations, entry.faults)
    )
    return (
        f'<tr><td><input type="radio" name="a" value="{name}" aria-label="A: {name}"></td>'
        f'<td><input type="radio" name="b" value="{name}" aria-label="B: {name}"></td>'
        f'<td class="mono"><a href="/run/{name}">{name}</a></td>'
        f'<td class="bad">{html.escape(broke)}</td><td class="mono">{html.escape(entry.seed)}</td>'
        f"<td>{html.escape(entry.profile)}</td>{cells}"
        f"<td>{found}</td><td>{html.escape(entry.found_by)}</td></tr>"
    )


def comparison(one: str, other: str, found: dict[str, Any]) -> str:
    """Two runs side by side. ``found`` is what :mod:`squall.sim.serve.work` wrote."""
    names = tuple(html.escape(name, quote=True) for name in (one, other))
    parts = [
        '<p class="crumbs"><a href="/">all runs</a></p>',
        f"<h1>{names[0]} and {names[1]}</h1>",
    ]
    number = found["number"]
    if number is None:
        parts.append(f"<p>They are the same run, to the last of {found['events'][0]:,} events.</p>")
        anchor = ""
    else:
        parts.append(
            f"<p>They share {number:,} events and part at event <b>#{number}</b>: here are the "
            "last that they share, and what comes then.</p>"
        )
        parts.append(_events(found, names))
        anchor = f"#event={number}&amp;from"
    frames = "".join(
        f'<iframe src="/run/{name}{anchor}" title="{name}"></iframe>' for name in names
    )
    parts.append(f'<div class="pair">{frames}</div>')
    return document(f"squall: {one} and {other}", "".join(parts), wide=True)


def _events(found: dict[str, Any], names: tuple[str, ...]) -> str:
    rows = []
    for row in found["rows"]:
        kind = "same" if row["same"] else "parts"
        sides = "".join(
            f'<td class="mono">{html.escape(side or "(it has ended)")}</td>'
            for side in row["sides"]
        )
        rows.append(f'<tr class="{kind}"><td class="mono">#{row["number"]}</td>{sides}</tr>')
    head = f"<tr><th>event</th><th>{names[0]}</th><th>{names[1]}</th></tr>"
    return f'<table class="events"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'


def problem(status: int, text: str) -> str:
    """What is shown instead of a page."""
    body = (
        f'<p class="crumbs"><a href="/">all runs</a></p><h1>{status}</h1><p>{html.escape(text)}</p>'
    )
    return document(f"squall: {status}", body)
