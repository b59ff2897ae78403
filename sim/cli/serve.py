"""``squall serve``: what the store keeps, in a browser on this machine."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from squall.sim.cli.input import BadInput, integer

DEFAULT_PORT = 8321

EPILOG = """\
[bold]Examples[/bold]

squall serve                                (http://127.0.0.1:8321/)

squall serve --port 0 --json                (a free port, and which one)
"""


def serve(
    port: Annotated[
        str, typer.Option(metavar="P", help="Port on 127.0.0.1; 0 takes a free one.")
    ] = str(DEFAULT_PORT),
    store: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="The store (default .squall).", show_default=False),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object with the address.")
    ] = False,
) -> None:
    """List stored failures and runs, open their timelines, compare two of them side by side.

    Listens on 127.0.0.1 only and changes nothing. Ctrl-C ends it.
    """
    number = integer("--port", port, 0, 65535)
    from squall.sim.scenarios.store import Place, default_place
    from squall.sim.serve.server import ADDRESS, Server

    if store is not None and not (store and Path(store).is_dir()):
        raise BadInput("--store", store, f"there is no directory {store!r}")
    place = default_place() if store is None else Place(Path(store))
    console = Console(file=sys.stderr, highlight=False)
    try:
        server = Server(place, number, on_request=lambda line: console.print(line, style="dim"))
    except OSError as error:
        raise BadInput(
            "--port", port, f"cannot listen on {ADDRESS}:{number}: {error.strerror}"
        ) from None
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
