"""What summaries of several commands have in common."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

#: columns that a summary takes at most
WIDTH = 100


def summary_table() -> Table:
    """A table of names and what there is to say of each."""
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def verdict(text: str, *, good: bool) -> Text:
    """What came out, in green or red."""
    return Text(text, style="bold green" if good else "bold red")


def unchecked_row(table: Table, unchecked: str | None) -> None:
    """Why nothing was checked, if so."""
    if unchecked is not None:
        table.add_row("not checked", Text(unchecked, style="yellow"))


def print_panel(
    console: Console, content: RenderableType, title: str, *, good: bool | None = None
) -> None:
    """Print a summary in a frame, green or red; None: of neither colour."""
    border = {True: "green", False: "red", None: "none"}[good]
    panel = Panel(
        content,
        title=Text(title),
        title_align="left",
        border_style=border,
        padding=(1, 2),
        width=min(WIDTH, console.width),
    )
    console.print(panel)
