"""What the stand-alone scripts printed, on each version of torch: ``results.json``."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from squall.properties.findings.finding import HERE

FILE = HERE / "results.json"
#: a script that prints no line within its limit, or ends without one
NO_LINE = "no line"


@dataclass(frozen=True)
class Result:
    """One run of a finding's scripts on one torch."""

    #: the line of ``stock.py``, or ``no line: …``
    stock: str
    #: that of ``control.py``; empty if there is none
    control: str = ""

    @property
    def word(self) -> str:
        """``BUG``, ``OK`` or ``no line``."""
        return NO_LINE if self.stock.startswith(NO_LINE) else self.stock.partition(" ")[0]


#: by version of torch, then by name of a finding
Results = dict[str, dict[str, Result]]


def load(file: Path = FILE) -> Results:
    if not file.exists():
        return {}
    held = json.loads(file.read_text("utf-8"))
    return {
        version: {name: Result(**result) for name, result in results.items()}
        for version, results in held.items()
    }


def save(results: Results, file: Path = FILE) -> None:
    """Write them, sorted, so that a run changes the lines it changed."""
    plain = {
        version: {name: asdict(results[version][name]) for name in sorted(results[version])}
        for version in sorted(results, key=version_key)
    }
    written = file.with_suffix(f".{os.getpid()}.tmp")
    written.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", "utf-8")
    written.replace(file)  # whoever reads it meanwhile reads the one or the other


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
