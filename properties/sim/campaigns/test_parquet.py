"""What others read of a campaign is what its store has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from squall.properties.sim.campaigns.test_overview import watched
from squall.properties.sim.campaigns.test_store import PLAN, filled
from squall.properties.support.postgresql import Server
from squall.sim.campaigns.address import Address
from squall.sim.campaigns.lease import Judged, Row, judged
from squall.sim.campaigns.parts import Part
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.store import CampaignStore
from squall.sim.campaigns.store_reader import Reading
from squall.sim.cli.main import main as run_command


def lines_of(folder: Path) -> list[str]:
    """The table of verdicts, made from what pandas reads."""
    import pandas  # here and below, not of every process that collects the tests: 65 MB

    found = []
    for name, table, columns in (
        ("lease", "leases", ["part", "first", "stop", "digest", "events"]),
        ("failure", "failures", ["part", "seed", "property", "what", "digest"]),
    ):
        frame = pandas.read_parquet(folder / table)[columns].astype({"part": str})
        rows = frame.to_dict("split")["data"]
        found += [json.dumps([name, *row]) + "\n" for row in sorted(rows, key=lambda row: row[:2])]
    return found


@pytest.mark.parametrize("on_server", [False, True], ids=["file", "server"])
def test_pandas_reads_what_the_store_has(
    tmp_path: Path, request: pytest.FixtureRequest, on_server: bool
) -> None:
    import pandas

    from squall.sim.campaigns.parquet import export

    place: Path | Address = tmp_path / "db"
    if on_server:
        server: Server = request.getfixturevalue("postgresql")
        place = Address.read(server.url(request.getfixturevalue("database")))
    store = watched(place)
    told: list[int] = []
    exported = export(store, tmp_path / "out", told.append)
    assert (exported.leases, exported.failures, sum(told)) == (18, 14, 32)
    assert lines_of(tmp_path / "out") == list(store.lines())
    leases = pandas.read_parquet(tmp_path / "out" / "leases")
    assert leases.groupby("worker", observed=True)["seconds"].sum().to_dict() == {
        "fast": 9,
        "slow": 18,
    }
    assert str(leases["finished"].dtype).startswith("datetime64[us, UTC")
    failures = pandas.read_parquet(tmp_path / "out" / "failures")
    texts = {kind.text for kind in store.kinds()}
    assert texts <= set(failures["text"])
    assert (
        json.loads((tmp_path / "out" / "campaign.json").read_text(encoding="utf-8")) == store.said
    )
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert exported.bytes == sum(file.stat().st_size for file in files)
    store.close()


def test_a_campaign_without_failures_has_a_table_of_none(tmp_path: Path) -> None:
    from pyarrow.dataset import dataset

    from squall.sim.campaigns.parquet import export

    plan = Plan((Part("plain", range(4)),), size=2)
    store = CampaignStore(tmp_path / "db", plan.said(), resume=False)
    export(store, tmp_path / "nothing")
    store.take(list(_clean(plan)))
    export(store, tmp_path / "out")
    failures = dataset(tmp_path / "out" / "failures", partitioning="hive")
    assert failures.count_rows() == 0
    assert "property" in failures.schema.names
    assert lines_of(tmp_path / "out") == list(store.lines())
    store.close()


def _clean(plan: Plan) -> Iterator[Judged]:
    return (judged(lease, [Row(seed) for seed in lease.seeds]) for lease in plan.leases())


def test_a_folder_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from squall.sim.campaigns.parquet import ExportError, export

    store = filled(tmp_path / "db")
    rows = Reading.rows

    def interrupted(self: Reading, table: object, part: str):  # type: ignore[no-untyped-def]
        yield next(rows(self, table))  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(Reading, "rows", interrupted)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        export(store, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before
    monkeypatch.undo()
    export(store, tmp_path / "out")
    with pytest.raises(ExportError, match="out: expected a folder that is new or empty"):
        export(store, tmp_path / "out")
    store.close()


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = filled(tmp_path / "campaign.sqlite")
    lines = list(store.lines())
    store.close()

    def told(*words: str, code: int = 0) -> dict[str, object]:
        with pytest.raises(SystemExit) as ended:
            run_command(["campaign", "--export", "out", *words, "--json"])
        said = capsys.readouterr()
        assert (ended.value.code or 0) == code, said
        report: dict[str, object] = json.loads(said.out)
        return report

    report = told()
    assert (report["outcome"], report["leases"], report["failures"]) == ("ok", 18, 14)
    assert (report["store"], report["folder"]) == ("campaign.sqlite", "out")
    assert lines_of(tmp_path / "out") == lines
    again = told(code=2)
    assert again["message"] == "--export: expected a folder that is new or empty, got 'out'"
    (tmp_path / "out").rename(tmp_path / "before")
    for words, problem in (
        (["--seeds", "0:4"], "--seeds: does not go with --export"),
        (["--merge"], "--merge: does not go with --export"),
        (["--resume"], "--resume: does not go with --export"),
        (["campaign.toml"], "FILE: does not go with --export"),
        (["--store", "none"], "--store: none: unable to open database file"),
    ):
        assert problem in str(told(*words, code=2)["message"])
    assert PLAN.size == 3
    assert not (tmp_path / "out").exists()
