"""``python -m squall.properties.issues``: write the page, or run the scripts on the torch that is installed."""

from __future__ import annotations

import argparse
import sys

import torch

from squall.properties.findings.results import Result, load, save
from squall.properties.issues.issue import STOCK, IssueError, issues, on_stock
from squall.properties.issues.page import write

#: seconds of real time for one script
LIMIT_S = 120.0


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m squall.properties.issues", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("page", help="write docs/issues.md anew")
    stock = commands.add_parser("stock", help="run the scripts, and keep their lines in stock.json")
    stock.add_argument("names", nargs="*", help="such as pytorch-173608; without any, all")
    asked = parser.parse_args(words)
    try:
        if asked.command == "stock":
            _stock(asked.names)
        write()
    except IssueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _stock(names: list[str]) -> None:
    found = {one.name: one for one in issues()}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise IssueError(f"no issue {', '.join(unknown)}; there are {', '.join(found)}")
    version = torch.__version__.partition("+")[0]
    for name in names or found:
        line = on_stock(found[name], limit_s=LIMIT_S)
        results = load(STOCK)
        results.setdefault(version, {})[name] = Result(line)
        save(results, STOCK)
        print(f"{name}: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
