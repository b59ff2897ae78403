"""``make bench``: every benchmark, one table, each ratio measured side by side in this run."""

from __future__ import annotations

import platform
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import engine, growth, network, round_trips, sizes, step

Row = tuple[str, str, str, str]


def engine_rows() -> list[Row]:
    engine.measure(repeats=2)
    rows = []
    for name, row in engine.measure().items():
        measured = f"{row['port_s'] * 1e3:.1f} ms against {row['torch_s'] * 1e3:.1f} ms"
        rows.append((f"backward, {name}", measured, f"{row['ratio']:.2f}", "≤ 3.0"))
        rows.append(("  with every event traced", "", f"{row['ratio_traced']:.2f}", ""))
    return rows


def step_rows() -> list[Row]:
    row = step.measure()
    measured = f"{row['squall_ms']:.2f} ms against {row['stock_ms']:.2f} ms"
    rate = f"{row['simpy_events_per_s']:,.0f}/s of {row['bare_simpy_events_per_s']:,.0f}/s"
    return [
        ("rpc_sync + backward, 2 workers", measured, f"{row['ratio']:.2f}", "≤ 1.0"),
        ("SimPy events during that step", rate, f"{row['simpy_fraction']:.3f}", ""),
    ]


def network_rows() -> list[Row]:
    return [
        (f"a bare message, latency {latency}", f"{cost:.1f} us", "", "≤ 12 us")
        for latency, cost in network.measure().items()
    ]


def round_trip_rows() -> list[Row]:
    found = round_trips.measure()
    own = found.pop("squall")
    rows: list[Row] = [("100 round trips, a message", f"{own:.1f} us", "1.00", "")]
    for name, cost in found.items():
        rows.append((f"  the same on {name}", f"{cost:.1f} us", f"{cost / own:.2f}", ""))
    return rows


def size_rows() -> list[Row]:
    rows: list[Row] = []
    first: float | None = None
    for row in sizes.measure():
        first = first or row["us_each"]
        what = f"{row['workers']:,.0f} workers, {row['nodes']:,.0f} nodes"
        measured = f"{row['seconds'] * 1e3:,.0f} ms, {row['us_each']:.0f} us a node or message"
        rows.append((what, measured, f"{row['us_each'] / first:.2f}", "linear"))
    return rows


def growth_rows() -> list[Row]:
    rows: list[Row] = []
    first: float | None = None
    for row in growth.measure():
        first = first or row["ms_per_worker"]
        measured = f"{row['ms_per_worker']:.2f} ms and {row['kib_per_worker']:.0f} KiB a worker"
        relative = f"{row['ms_per_worker'] / first:.2f}"
        rows.append((f"{row['workers']:,.0f} workers, a call each", measured, relative, "200 KiB"))
    return rows


def main() -> None:
    torch.set_num_threads(1)
    console = Console()
    table = Table(title=f"torch {torch.__version__}, Python {platform.python_version()}")
    table.add_column("what")
    table.add_column("measured")
    table.add_column("ratio", justify="right")
    table.add_column("goal", justify="right")
    parts: list[Callable[[], list[Row]]] = [
        engine_rows,
        step_rows,
        network_rows,
        round_trip_rows,
        size_rows,
        growth_rows,
    ]
    with console.status("measuring") as status:
        for part in parts:
            status.update(f"measuring: {part.__name__.removesuffix('_rows')}")
            for row in part():
                table.add_row(*row)
            table.add_section()
    console.print(table)


if __name__ == "__main__":
    main()
