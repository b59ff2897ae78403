"""``squall campaign --export DIR``: the store as Parquet."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.bar import Bar
from squall.sim.cli.panels import print_panel, summary_table

if TYPE_CHECKING:
    from squall.sim.campaigns.address import Address


def export_store(address: Address, folder: Path, *, json: bool) -> None:
    """Raises BadInput, CampaignStoreError."""
    from squall.sim.campaigns.store_reader import open_store

    bar = Bar("exporting", BarColumn(), MofNCompleteColumn())
    store = open_store(address, tell=bar.warn)
    from squall.sim.campaigns.parquet import ExportError, export

    try:
        ((leases,),) = store.ask("SELECT count(*) FROM lease")
        total = leases + store.counts()[1]
        with bar:
            found = export(store, folder, lambda rows: bar.say(advance=rows, total=total))
    except ExportError as error:
        raise BadInput("--export", str(folder), str(error)) from None
    finally:
        store.close()
    if json:
        said = {"outcome": "ok", "store": str(address), "folder": str(folder), **found._asdict()}
        typer.echo(json_module.dumps(said))
        return
    table = summary_table()
    table.add_row("store", str(address))
    table.add_row("leases", f"{found.leases:,}, in {folder / 'leases'}")
    table.add_row("failures", f"{found.failures:,}, in {folder / 'failures'}")
    table.add_row("size", f"{found.bytes:,} bytes")
    print_panel(Console(highlight=False), table, "squall campaign --export", good=True)
