"""``squall examples``: the scripts that come with squall."""

from __future__ import annotations

import ast
import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.options import Json

#: where they are: in an installation beside the other parts of squall
FOLDER = Path(__file__).parents[3] / "examples"

RANK = 15
EPILOG = """\
[bold]Examples[/bold]

squall examples                      (what there is)

squall examples pipeline             (writes pipeline.py here)

squall examples all --into examples  (writes all of them into a folder)
"""


def examples(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...", help="Which ones to write; all: each. Without, they are listed."
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            metavar="DIR",
            help="The folder to write into.",
            parser=parsers.folder_to_make("--into"),
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the example scripts that come with squall, or write them into a folder.

    Each is an ordinary PyTorch script, which says at its beginning how it is run.
    """
    known = {file.stem: file for file in sorted(FOLDER.glob("*.py"))}
    if not names:
        told = {name: _about(file) for name, file in known.items()}
        if json:
            typer.echo(json_module.dumps({"examples": told}))
            return
        width = max(map(len, told))
        for name, about in told.items():
            typer.echo(f"{name:<{width}}  {about}")
        return
    asked = list(known) if names == ["all"] else [name.removesuffix(".py") for name in names]
    for name in asked:
        parsers.one_of("NAME", tuple(known))(name)
    folder = Path() if into is None else into
    written = [folder / f"{name}.py" for name in asked]
    for file in written:
        if file.exists():
            raise BadInput("NAME", file.stem, f"{str(file)!r} is there, expected another --into")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in written:
            file.write_text(known[file.stem].read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise BadInput("--into", str(folder), f"cannot write there: {error.strerror}") from None
    if json:
        typer.echo(json_module.dumps({"written": [str(file) for file in written]}))
    else:
        typer.echo("\n".join(map(str, written)))


def _about(file: Path) -> str:
    """What an example is, in a line."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())
