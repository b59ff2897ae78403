"""The table of libraries in docs/scripts.md has a row for each script."""

from __future__ import annotations

from squall.properties.libraries.__main__ import BEGIN, END, PAGE, scripts


def test_each_script_has_its_row() -> None:
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    assert [row[1] for row in rows] == [what for _, what, _ in scripts()]
    assert all(
        row[0].startswith(f"| {name} ") for row, (name, _, _) in zip(rows, scripts(), strict=True)
    )
