"""``make matrix``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from squall.properties.matrix import run as runs
from squall.properties.matrix.page import PAGE, page
from squall.properties.matrix.rows import BY_NAME, REFERENCE, ROWS, Row

_console = Console()


def _rows(names: list[str]) -> list[Row]:
    for name in names:
        if name not in BY_NAME:
            raise typer.BadParameter(
                f"there is no row {name!r}, expected one of {', '.join(BY_NAME)}"
            )
    return [row for row in ROWS if not names or row.name in names]


def main(
    only: Annotated[list[str] | None, typer.Argument(help="Names of rows; all by default.")] = None,
    digests: Annotated[bool, typer.Option("--digests", help="Leave out the test suite.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each profile.")] = 100,
    jobs: Annotated[str, typer.Option(help="Processes for the suite.")] = "auto",
    list: Annotated[bool, typer.Option("--list", help="List the rows, and run none.")] = False,
) -> None:
    """Run the suite and compare digests under many conditions; exit code 1 if one differs."""
    rows = _rows(only or [])
    if list:
        for row in rows:
            _console.print(row.name, "-", row.what)
        return
    bad = False
    with _console.status("digests of the first row") as status:
        reference = runs.digests_of(REFERENCE, seeds)
        for row in rows:
            status.update(f"row {row.name}")
            result = runs.run(row, reference, seeds, suite=not digests, jobs=jobs)
            runs.save(row.name, result)
            PAGE.write_text(page(), encoding="utf-8")
            failed = result.suite.failed if result.suite else []
            bad |= bool(result.differ or failed)
            _console.print(
                f"{row.name}: {result.missing or ''}{result.digests} digests, "
                f"{len(result.differ)} differ, {len(result.texts)} in torch's texts, "
                f"{len(failed)} tests failed"
            )
    raise typer.Exit(1 if bad else 0)


if __name__ == "__main__":
    typer.run(main)
