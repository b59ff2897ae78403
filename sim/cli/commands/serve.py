"""``squall serve``: what the store keeps, in a browser on this machine."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.options import AllowScripts, Json, Plotly, store_option

DEFAULT_PORT = 8321

RANK = 110
EPILOG = """\
[bold]Examples[/bold]

squall serve                                (http://127.0.0.1:8321/)

squall serve --port 0 --json                (a free port, and which one)

squall serve --plotly file                  (small pages: the browser loads plotly.js once)
"""


def serve(
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="P",
            help="Port on 127.0.0.1; 0 takes a free one.",
            parser=parsers.integer("--port", 0, 65535),
        ),
    ] = DEFAULT_PORT,
    store: Annotated[
        Path | None,
        store_option("DIR", "The store (default .squall).", parsers.folder),
    ] = None,
    plotly: Plotly = None,
    allow_scripts: AllowScripts = False,
    json: Json = False,
) -> None:
    """List stored failures and runs, open their timelines, compare two of them side by side.

    Listens on 127.0.0.1 only and changes nothing. A run starts by a button of the page. Ctrl-C ends it.
    """
    from squall.sim.scenarios.store import Place, default_place
    from squall.sim.serve.server import ADDRESS, Server

    place = default_place() if store is None else Place(store)
    console = Console(file=sys.stderr, highlight=False)
    try:
        server = Server(
            place,
            port,
            scripts=allow_scripts,
            plotly=plotly or "inline",
            on_request=lambda line: console.print(line, style="dim"),
        )
    except OSError as error:
        problem = f"cannot listen on {ADDRESS}:{port}: {error.strerror}"
        raise BadInput("--port", str(port), problem) from None
    try:
        if json:
            typer.echo(json_module.dumps({"url": server.url, "store": str(place.folder)}))
            sys.stdout.flush()
        else:
            console.print(
                f"[bold]{server.url}[/] shows what is kept in {place.folder}; Ctrl-C ends it"
            )
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        console.print("ended")
    finally:
        server.server_close()
