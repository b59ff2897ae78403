"""A store as Parquet, for whoever asks questions that squall does not: DuckDB, pandas, notebooks.

DIR/campaign.json                     what decides the verdicts
DIR/leases/part=rough/0.parquet       a row a lease
DIR/failures/part=rough/0.parquet     a row a scenario that failed; without rows if none has
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow
from pyarrow.parquet import ParquetWriter

from squall.sim.campaigns.store_reader import Reading
from squall.sim.campaigns.tables import FAILURE, LEASE, Table

#: rows of a row group
_ROWS = 50_000
_INTEGER, _TEXT, _REAL = pyarrow.int64(), pyarrow.string(), pyarrow.float64()
_NAME = pyarrow.dictionary(pyarrow.int32(), _TEXT)
_TIME = pyarrow.timestamp("us", tz="UTC")
#: the columns of each table, but for the part, which is in the name of the folder
_SCHEMAS = {
    LEASE: pyarrow.schema(
        {
            "first": _INTEGER,
            "stop": _INTEGER,
            "digest": _TEXT,
            "events": _INTEGER,
            "failed": _INTEGER,
            "host": _NAME,
            "worker": _NAME,
            "seconds": _REAL,
            "finished": _TIME,
        }
    ),
    FAILURE: pyarrow.schema(
        {
            "seed": _INTEGER,
            "property": _NAME,
            "what": _NAME,
            "place": _NAME,
            "digest": _TEXT,
            "text": _TEXT,
        }
    ),
}
_FOLDERS = {LEASE: "leases", FAILURE: "failures"}


class ExportError(Exception):
    """The folder cannot be written: which one, and why."""


class Exported(NamedTuple):
    leases: int
    failures: int
    bytes: int


def export(
    store: Reading, folder: Path, on_rows: Callable[[int], object] = lambda rows: None
) -> Exported:
    """Write all that a store has into a folder, which must not exist or be empty; whole or not at
    all. ``on_rows`` is told how many more are written. Raises ExportError, CampaignStoreError."""
    parts = sorted(store.judged(), key=str.encode)
    made = folder.with_name(f".{folder.name}.made")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ExportError(f"{folder}: expected a folder that is new or empty")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        try:
            said = json.dumps(store.said, indent=2)
            (made / "campaign.json").write_text(f"{said}\n", encoding="utf-8")
            leases, failures = (
                _write(store, table, parts, made, on_rows) for table in (LEASE, FAILURE)
            )
            size = sum(file.stat().st_size for file in made.rglob("*") if file.is_file())
            with suppress(FileNotFoundError):
                folder.rmdir()
            made.rename(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        raise ExportError(f"{folder}: {error.strerror or error}") from None
    return Exported(leases, failures, size)


def _write(
    store: Reading,
    table: Table,
    parts: list[str],
    folder: Path,
    on_rows: Callable[[int], object],
) -> int:
    """The rows of a table, each part in a file of its own. How many there are."""
    count = 0
    for part in parts:
        file = folder / _FOLDERS[table] / f"part={quote(part, safe='')}" / "0.parquet"
        file.parent.mkdir(parents=True)
        rows = store.rows(table, part)
        with ParquetWriter(file, _SCHEMAS[table], compression="zstd") as writer:
            while some := [_row(row) for row in islice(rows, _ROWS)]:
                writer.write_table(pyarrow.Table.from_pylist(some, _SCHEMAS[table]))
                count += len(some)
                on_rows(len(some))
    return count


def _row(row: dict[str, Any]) -> dict[str, Any]:
    at = row.get("finished")
    return row if at is None else {**row, "finished": round(at * 1e6)}
