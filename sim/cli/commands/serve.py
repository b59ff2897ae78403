"""``squall serve``: what the store keeps, in a browser on this machine."""

from __future__ import annotations

import json as json_module
import re
import sys
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.options import AllowScripts, Json, Plotly, store_option

if TYPE_CHECKING:
    from squall.sim.serve.campaign import CampaignView

DEFAULT_PORT = 8321
#: what a token may be, which stands in addresses and in a cookie
TOKEN = re.compile("[A-Za-z0-9_-]+")

RANK = 110
EPILOG = """\
[bold]Examples[/bold]

squall serve                                (http://127.0.0.1:8321/)

squall serve --port 0 --json                (a free port, and which one)

squall serve --campaign night.sqlite        (how far a campaign is: docs/campaigns.md)

squall serve --campaign night.sqlite --host 0.0.0.0   (for other machines, by a token)

squall serve --plotly file                  (small pages: the browser loads plotly.js once)
"""


def serve(
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="P",
            help="Port to listen on; 0 takes a free one.",
            parser=parsers.integer("--port", 0, 65535),
        ),
    ] = DEFAULT_PORT,
    store: Annotated[
        Path | None,
        store_option("DIR", "The store (default .squall).", parsers.folder),
    ] = None,
    campaign: Annotated[
        str | None,
        typer.Option(
            "--campaign",
            metavar="STORE",
            help="Show this campaign, too: a file of squall campaign, or postgresql://...",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Listen on this address. Where other machines reach it, a token is asked for, "
            "and nothing runs.",
        ),
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TEXT",
            envvar="SQUALL_SERVE_TOKEN",
            help="The token for --host (default: one that is made, and printed).",
            show_default=False,
        ),
    ] = None,
    plotly: Plotly = None,
    allow_scripts: AllowScripts = False,
    json: Json = False,
) -> None:
    """List stored failures and runs, open their timelines, compare two of them side by side.

    Changes nothing. A run starts by a button of the page, unless other machines can reach it. Ctrl-C
    ends it.
    """
    from squall.sim.serve.access import TOKEN_LEAST, is_loopback

    console = Console(file=sys.stderr, highlight=False)
    if is_loopback(host):
        if token is not None:
            raise BadInput("--token", "", f"goes with --host; {host} is this machine alone")
    elif token is None:
        token = token_urlsafe(TOKEN_LEAST)
    elif len(token) < TOKEN_LEAST or not TOKEN.fullmatch(token):
        problem = f"expected at least {TOKEN_LEAST} letters, digits, '-' or '_'"
        raise BadInput("--token", "", problem)
    view = None if campaign is None else _view(campaign)
    from squall.sim.scenarios.store import StorePlace, default_place
    from squall.sim.serve.server import Server

    place = default_place() if store is None else StorePlace(store)
    try:
        server = Server(
            place,
            port,
            scripts=allow_scripts,
            plotly=plotly or "inline",
            on_request=lambda line: console.print(line, style="dim", markup=False),
            host=host,
            access=token,
            campaign=view,
        )
    except OSError as error:
        problem = f"cannot listen on {host}:{port}: {error.strerror}"
        field = ("--port", str(port)) if is_loopback(host) else ("--host", host)
        raise BadInput(*field, problem) from None
    try:
        if json:
            typer.echo(json_module.dumps({"url": server.url, "store": str(place.folder)}))
            sys.stdout.flush()
        else:
            console.print(
                f"[bold]{server.url}[/] shows what is kept in {place.folder}; Ctrl-C ends it"
            )
        server.serve_forever()
    except KeyboardInterrupt:
        console.print("ended")
    finally:
        server.server_close()


def _view(campaign: str) -> CampaignView:
    """Raises BadInput, which tells no password."""
    from squall.sim.campaigns.address import Address, CampaignStoreError
    from squall.sim.serve.campaign import CampaignView

    try:
        return CampaignView(Address.read(campaign))
    except (CampaignStoreError, ValueError) as error:
        raise BadInput("--campaign", "", str(error)) from None
