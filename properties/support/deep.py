"""``make test-deep``: what the suite of minutes leaves out, as a campaign (docs/deep.md).

    python -m squall.properties.support.deep --shard 2/6 --on pool --jobs 2 [words for squall campaign]

The verdicts are in ``build/deep/COMMIT.sqlite``, or ``COMMIT.2of6.sqlite`` of a share; what there is to say of them
is in a file beside it that ends in ``.json``, and in ``build/deep.json``. Of a campaign that is whole ``docs/deep.md`` gets a line. Exit
code 1 if anything has failed, 4 if something is not judged, 130 after an interrupt.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import redirect_stdout
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from squall.properties.support.costs import folder_of
from squall.properties.support.paths import DOCS, PROPERTIES, ROOT
from squall.sim.campaigns.parts.tests import TIMES_VARIABLE
from squall.sim.campaigns.store_reader import open_store
from squall.sim.cli.exits import INTERRUPTED
from squall.sim.cli.main import main as run_command
from squall.sim.world import interrupts

PLAYED = PROPERTIES / "deep.toml"
PAGE = DOCS / "deep.md"
#: what a share is called, from 1 on; and what puts all of them together
_SHARD, MERGE = re.compile(r"([1-9][0-9]*)/([1-9][0-9]*)"), "merge"
#: the head of the table in the page
_HEAD = "| date | commit | tests | scenarios and bugs | minutes | machine | failed |"


@dataclass(frozen=True)
class Deep:
    """``commit``: with a ``+`` and a hash if the files are not those of it. ``shard``: "", "2/6" or "merge"."""

    commit: str
    shard: str
    folder: Path

    @property
    def whole(self) -> bool:
        return self.shard in ("", MERGE)

    def file(self, ending: str, shard: str | None = None) -> Path:
        shard = self.shard if shard is None else shard
        name = "" if shard in ("", MERGE) else f".{shard.replace('/', 'of')}"
        return self.folder / "deep" / f"{self.commit}{name}{ending}"

    def shards(self, ending: str) -> list[Path]:
        """The files of all shares that are here."""
        return sorted((self.folder / "deep").glob(f"{self.commit}.*of*{ending}"))

    def words(self, played: Path, on: str, jobs: int, more: list[str]) -> list[str]:
        """What is said to ``squall``."""
        store = ["--store", str(self.file(".sqlite")), "--resume", "--json"]
        if self.shard == MERGE:
            return ["campaign", "--merge", *map(str, self.shards(".sqlite")), *store]
        words = ["campaign", str(played), *store, "--jobs", str(jobs)]
        if self.shard:
            number, of = self.shard.split("/")
            words += ["--index", f"{int(number) - 1}/{of}"]
        return [*words, "--on", on, *more] if on != "pool" else [*words, *more]


def main(argv: list[str] | None = None) -> int:
    given, more = _read(argv)
    deep = Deep(commit_of(ROOT), given.shard, given.folder)
    times = deep.file(".times.jsonl")
    times.parent.mkdir(parents=True, exist_ok=True)
    os.environ[TIMES_VARIABLE] = str(times)
    began, before_s = time.monotonic(), _cpu_s()
    code, report = _squall(deep.words(given.played, given.on, given.jobs, more))
    if not report or "parts" not in report:
        return code  # it has said why
    told = {
        "wall_s": time.monotonic() - began,
        "cpu_s": _cpu_s() - before_s,
        "on": given.on,
        "jobs": given.jobs,
        "cores": os.cpu_count(),
    }
    result = result_of(deep, report, told)
    for file in (deep.file(".json"), deep.folder / "deep.json"):
        file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if (
        deep.whole
        and report["outcome"] in ("ok", "failed")
        and report["judged"] == report["scenarios"]
    ):
        page = given.page.read_text(encoding="utf-8")
        given.page.write_text(with_line(page, result), encoding="utf-8")
    print("\n".join(lines_of(result)))
    return code


def _read(argv: list[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog="deep", description=__doc__)
    parser.add_argument(
        "--shard", default="", help="2/6: the second of six shares; merge: all of them"
    )
    parser.add_argument("--on", default="pool", choices=("pool", "ray"))
    parser.add_argument("--jobs", default="auto")
    parser.add_argument("--played", type=Path, default=PLAYED, help="a campaign.toml")
    parser.add_argument("--folder", type=Path, default=ROOT / "build", help="what has come of it")
    parser.add_argument("--page", type=Path, default=PAGE, help="whose table gets a line")
    given, more = parser.parse_known_args(argv)
    known = _SHARD.fullmatch(given.shard)
    if given.shard not in ("", MERGE) and not (known and int(known[1]) <= int(known[2])):
        parser.error(f"SHARD: expected a share as 2/6, or merge, got {given.shard!r}")
    if given.jobs != "auto" and not given.jobs.isdigit():
        parser.error(f"JOBS: expected a number or auto, got {given.jobs!r}")
    given.jobs = os.cpu_count() or 1 if given.jobs == "auto" else int(given.jobs)
    return given, more


def _squall(words: list[str]) -> tuple[int, dict[str, Any]]:
    """Run a command in this process, which is the one that Ctrl-C reaches. Its exit code and report."""
    out = io.StringIO()
    code: Any = 0
    try:
        with redirect_stdout(out), interrupts.heard():
            run_command(words)
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        code = INTERRUPTED
    text = out.getvalue().strip()
    return int(code or 0), json.loads(text.splitlines()[-1]) if text else {}


def commit_of(root: Path) -> str:
    """Twelve digits; with a hash of what differs from it, the page about this aside."""
    page = f":!{PAGE.relative_to(ROOT)}"
    commit = _git(root, "rev-parse", "--short=12", "HEAD").decode().strip()
    changed = _git(root, "diff", "HEAD", "--", ".", page)
    return commit + (f"+{blake2b(changed, digest_size=3).hexdigest()}" if changed else "")


def _git(root: Path, *words: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(root), *words], stdout=subprocess.PIPE, check=True
    ).stdout


def _cpu_s() -> float:
    """Seconds of a processor of this process and of all that it has started, if they have ended."""
    used = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


# -- what has come of it --------------------------------------------------------------------------


def result_of(deep: Deep, report: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """What ``build/deep.json`` says. Minutes add up over all times that this commit was gone on with, and in a merge
    over the shares."""
    store = open_store(deep.file(".sqlite"))
    try:
        failed: dict[str, int] = dict(store.ask("SELECT part, count(*) FROM failure GROUP BY part"))
        seconds: dict[str, float] = dict(
            store.ask("SELECT part, sum(seconds) FROM lease GROUP BY part")
        )
    finally:
        store.close()
    earlier = [deep.file(".json")] if deep.shard != MERGE else deep.shards(".json")
    before = [json.loads(file.read_text(encoding="utf-8")) for file in earlier if file.exists()]
    items = _items(deep)
    return {
        "commit": deep.commit,
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "shard": deep.shard or None,
        "on": told["on"],
        "jobs": told["jobs"],
        "cores": told["cores"],
        "outcome": report["outcome"],
        "verdicts": report["verdicts"],
        "minutes": {
            name: round(told[f"{name}_s"] / 60 + sum(each["minutes"][name] for each in before), 2)
            for name in ("wall", "cpu")
        },
        "parts": {
            part["name"]: {
                "kind": part["kind"],
                "of": part["scenarios"],
                "judged": part["judged"],
                "passed": part["judged"] - failed.get(part["name"], 0),
                "failed": failed.get(part["name"], 0),
                "minutes": round(seconds.get(part["name"], 0.0) / 60, 2),
            }
            for part in report["parts"]
        },
        "items": dict(sorted(Counter(each["outcome"] for each in items.values()).items())),
        "folders": _folders(items),
        "failures": [
            {name: each[name] for name in ("part", "what", "text", "scenarios", "replay")}
            for each in report["failures"]
        ],
        "regressions": report["regressions"],
    }


def _items(deep: Deep) -> dict[str, dict[str, Any]]:
    """What each test came to, and what it took, by its name; of one that was run again, the last time."""
    files = [deep.file(".times.jsonl")] if deep.shard != MERGE else deep.shards(".times.jsonl")
    found = {}
    for file in files:
        if file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                each = json.loads(line)
                found[each["item"]] = each
    return found


def _folders(items: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = defaultdict(lambda: {"items": 0, "seconds": 0, "cpu_s": 0})
    for name, each in items.items():
        folder = found[folder_of(name)]
        folder["items"] += 1
        for what in ("seconds", "cpu_s"):
            folder[what] = round(folder[what] + each[what], 2)
    return dict(sorted(found.items()))


def lines_of(result: dict[str, Any]) -> list[str]:
    """The result in a few lines."""
    lines = [
        f"{name}: {each['judged']:,} of {each['of']:,} judged, {each['failed']:,} failed, "
        f"{each['minutes']:,.1f} minutes"
        for name, each in result["parts"].items()
    ]
    for each in result["failures"]:
        lines += [f"{each['part']}, {each['what']}: {each['text']}", f"  again: {each['replay']}"]
    for each in result["regressions"]:
        lines.append(f"{each['property']}: {each['what']}: it was gone, and shows again")
        lines.append(f"  again: squall replay {each['file']}")
    minutes = result["minutes"]
    return [*lines, f"{minutes['wall']:,.1f} minutes, {minutes['cpu']:,.1f} of a processor"]


def with_line(page: str, result: dict[str, Any]) -> str:
    """The page with a line about a commit at the end of its table, instead of what it has said of it before."""
    commit = re.sub(r"\+.*", "+", result["commit"])
    parts = result["parts"].values()
    tests = sum(result["items"].values())
    others = sum(part["judged"] for part in parts if part["kind"] != "tests")
    minutes = result["minutes"]
    failed = sum(part["failed"] for part in parts) + len(result["regressions"])
    cells = [
        result["date"].split()[0],
        f"`{commit}`",
        f"{tests:,}",
        f"{others:,}",
        f"{minutes['wall']:,.0f}, CPU {minutes['cpu']:,.0f}",
        f"{result['cores']} cores, {result['on']}",
        f"{failed:,}" if failed else "none",
    ]
    line = f"| {' | '.join(cells)} |"
    before, head, table = page.partition(_HEAD)
    rows = [row for row in table.splitlines() if f"| `{commit}` |" not in row]
    while rows and not rows[-1]:
        rows.pop()
    return before + head + "\n".join([*rows, line]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
