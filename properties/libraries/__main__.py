"""``make libraries``: the table of docs/scripts.md, made anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from squall.properties.support.paths import DOCS
from squall.sim.names import ENGINE_NAMES, EngineName

SCRIPTS = Path(__file__).with_name("scripts")
PAGE = DOCS / "scripts.md"
BEGIN, END = "<!-- make libraries -->", "<!-- end of make libraries -->"
WORLD = 2
TIMEOUT_S = 300
_HEAD = """
| library | what the script uses | lines | port | torch |
|---|---|---|---|---|
"""


@dataclass
class Row:
    """What became of one script: the lines that two real processes print, and on each engine the outcome
    and which of the lines are missing."""

    name: str
    what: str
    lines: list[str]
    engines: dict[EngineName, str] = field(default_factory=dict)

    def cells(self) -> str:
        said = [self.engines.get(engine, "") for engine in ENGINE_NAMES]
        return f"| {' | '.join([self.name, self.what, str(len(self.lines)), *said])} |"


def scripts() -> list[tuple[str, str, Path]]:
    """The name of the distribution, what of it is used, and the file of each script."""
    found = []
    for path in sorted(SCRIPTS.glob("with_*.py")):
        says = path.read_text(encoding="utf-8").split('"""')[1]
        name, _, what = says.partition(": ")
        found.append((name, what.rstrip("."), path))
    return found


def stock(script: Path, folder: Path) -> list[str]:
    """What it prints under torchrun, sorted. Raises SystemExit if it fails there."""
    words = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={WORLD}"]
    # A file for each process: a pipe would mix their lines.
    words += ["--redirects=1", "--log-dir=logs"]
    done = subprocess.run(
        [sys.executable, *words, str(script)],
        cwd=folder,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode:
        raise SystemExit(f"{script} fails under torchrun:\n{done.stderr}")
    files = (folder / "logs").rglob("stdout.log")
    return sorted(line for file in files for line in file.read_text(encoding="utf-8").splitlines())


def simulated(script: Path, engine: EngineName, lines: list[str], folder: Path) -> str:
    """``equal``, or what is not."""
    words = ["run", str(script), f"--workers={WORLD}", f"--engine={engine}", "--allow-unchecked"]
    done = subprocess.run(
        [sys.executable, "-m", "squall", *words, "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    told = json.loads(done.stdout)
    if told.get("errors"):
        error = told["errors"][0]
        return f"{error['type']}: {error['message'].partition(':')[0]}"
    said = done.stderr.splitlines()
    missing = [line for line in lines if line not in said]
    for line in missing:
        print(f"not on {engine}: {line}", file=sys.stderr)
    return f"{len(missing)} lines differ" if missing else "equal"


def main(
    only: Annotated[
        list[str] | None, typer.Argument(help="Names of libraries; all by default.")
    ] = None,
) -> None:
    """Run the scripts as real processes and on both engines."""
    console, rows = Console(highlight=False, soft_wrap=True), []
    for name, what, script in scripts():
        if only and name not in only:
            continue
        row = Row(f"{name} {version(name)}", what, [])
        with tempfile.TemporaryDirectory() as folder, console.status(name):
            row.lines = stock(script, Path(folder))
            for engine in ENGINE_NAMES:
                row.engines[engine] = simulated(script, engine, row.lines, Path(folder))
        console.print(row.cells())
        rows.append(row)
    if not only:
        text = PAGE.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        table = _HEAD + "\n".join(row.cells() for row in rows)
        PAGE.write_text(
            f"{before}{BEGIN}\n{table}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8"
        )


if __name__ == "__main__":
    typer.run(main)
