"""``python -m squall.properties.findings``: write the page, or run the scripts on some torch."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
import venv
from pathlib import Path

from squall.properties.findings.finding import Finding, FindingError, findings
from squall.properties.findings.page import write
from squall.properties.findings.results import load, save
from squall.properties.findings.run import run_all
from squall.properties.support.paths import ROOT


class RefusedError(ValueError):
    """Something was asked for that there is not; the text says what there is."""


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m squall.properties.findings", description=__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("page", help="write docs/findings.md and the pages of findings anew")
    run = commands.add_parser(
        "run", help="run the scripts on a torch of its own, and keep the lines"
    )
    run.add_argument("names", nargs="*", help="findings; without any, all")
    run.add_argument("--torch", required=True, metavar="VERSION", help="such as 2.15.0")
    run.add_argument(
        "--venv", type=Path, help="where that torch is, or is put (.venv-torch-VERSION)"
    )
    run.add_argument("--at-once", type=int, default=4, metavar="N", help="scripts at a time (4)")
    run.add_argument(
        "--patience", type=float, default=4.0, help="times the limit of each script (4)"
    )
    asked = parser.parse_args(words)
    try:
        if asked.command == "page":
            write()
        else:
            _run(asked.torch, asked.venv, asked.names, asked.at_once, asked.patience)
    except (FindingError, RefusedError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; what was found until now is kept", file=sys.stderr)
        return 130
    return 0


def _run(version: str, where: Path | None, names: list[str], at_once: int, patience: float) -> None:
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise RefusedError(f"--torch: {version!r} is no version such as 2.15.0")
    if at_once < 1:
        raise RefusedError(f"--at-once: at least 1, not {at_once}")
    if not patience > 0:
        raise RefusedError(f"--patience: more than 0, not {patience}")
    found = _named(names)
    python = _python(version, where or ROOT / f".venv-torch-{version}")
    began = time.monotonic()
    count = sum(1 for one in found if one.stock)
    for number, (one, result) in enumerate(
        run_all(found, python, at_once=at_once, patience=patience), 1
    ):
        results = load()  # again: another torch may be at it
        results.setdefault(version, {})[one.name] = result
        save(results)
        seconds = time.monotonic() - began
        print(f"[{number}/{count} {seconds:4.0f} s] {one.name}: {result.stock}", flush=True)
    write()


def _named(names: list[str]) -> list[Finding]:
    found = {one.name: one for one in findings()}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise RefusedError(f"no finding {', '.join(unknown)}; there are {', '.join(found)}")
    return [found[name] for name in names] or list(found.values())


def _python(version: str, where: Path) -> Path:
    """The interpreter of an environment that has this torch, made now if need be."""
    python = where / "bin" / "python"
    if not python.exists():
        print(f"making {where}", flush=True)
        venv.create(where, with_pip=True)
    has = [str(python), "-c", "import torch; print(torch.__version__.split('+')[0])"]
    if subprocess.run(has, capture_output=True, text=True, check=False).stdout.strip() != version:
        print(f"installing torch {version}: minutes, and up to 6 GB with CUDA", flush=True)
        words = [
            str(python),
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "-q",
            "--timeout",
            "180",
        ]
        if subprocess.run([*words, f"torch=={version}", "numpy"], check=False).returncode:
            raise RefusedError(
                f"pip could not install torch {version} into {where}; where a constraints file of "
                "pip's forbids it, PIP_CONSTRAINT=/dev/null leaves that out"
            )
    return python


if __name__ == "__main__":
    sys.exit(main())
