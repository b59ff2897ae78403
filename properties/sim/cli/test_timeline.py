"""``squall timeline``: what it accepts, writes, and says."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs, get_plotlyjs_version

from squall.properties.sim.cli.test_run import BACKWARD, TWO_WORKERS, write
from squall.properties.support.commands import ROOT, squall
from squall.sim.cli.main import main
from squall.sim.pictures.narrate import LEGEND
from squall.sim.scenarios.replay import replay
from squall.sim.search.draw import draw


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["no-such"], "'no-such' is no seed, no file and no stored failure (see squall failures)"),
        (["no-such.py"], "SCRIPT: there is no file 'no-such.py', expected a Python script"),
        (["3", "--workers", "3"], "--workers: is for a script, and '3' is none"),
        (
            ["3", "-o", "properties"],
            "--output: 'properties' is a directory, expected a file to write",
        ),
        (["3", "-o", "nowhere/g.dot"], "--output: there is no directory 'nowhere' to write into"),
        (["3", "--points", "1"], "--points: expected an integer from 2 to 1000, got '1'"),
        (["3", "--pass", "x"], "--pass: expected an integer from 0 to 1000000, got 'x'"),
        (["3", "--plotly", "disk"], "--plotly: expected inline or cdn or file, got 'disk'"),
        (
            ["3", "--plotly", "cdn", "-o", "events.csv"],
            "--plotly: is for a page, and none is asked for: add --output FILE.html",
        ),
        (["3", "--faults", "gale"], "--faults: expected "),
        (["3", "--engine", "jax"], "--engine: expected port or torch, got 'jax'"),
        (
            ["examples/pipeline.py", "--odds"],
            "--odds: expected a seed or a scenario file, got a script",
        ),
        (
            ["examples/pipeline.py", "--mutant", "release-only-here"],
            "--mutant: is for a seed or a scenario file, and 'examples/pipeline.py' is a script",
        ),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as left:
        main(["timeline", *words])
    told = capsys.readouterr()
    assert left.value.code == 2 and not told.out
    assert told.err.startswith("squall: ") and line in told.err
    assert told.err.count("\n") == 1


def test_a_seed_becomes_a_page_and_files_for_other_tools(tmp_path: Path) -> None:
    names = {
        "html": "run.html", "perfetto": "run.json", "graphml": "run.graphml", "dot": "run.dot",
        "parquet": "run.parquet", "csv": "run.csv",
    }  # fmt: skip
    files = {kind: str(tmp_path / name) for kind, name in names.items()}
    words = [word for path in files.values() for word in ("-o", path)]
    done = squall("timeline", "3", *words, "--keep", "--json", SQUALL_STORE=str(tmp_path / "store"))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["files"] == files
    assert told["replay"] == "squall replay 3"
    assert all(Path(path).stat().st_size > 100 for path in files.values())
    assert replay(draw(3)).digest == told["digest"]
    (kept,) = (tmp_path / "store" / "runs").glob("*.json")
    assert json.loads(kept.read_text(encoding="utf-8"))["expected"]["digest"] == told["digest"]


def test_a_script_has_its_own_names_on_the_lanes(tmp_path: Path) -> None:
    script = write(tmp_path / "train.py", TWO_WORKERS, BACKWARD)
    out = tmp_path / "train.html"
    done = squall("timeline", script, "--seed", "4", "-o", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ok, ")
    assert f"again: squall run {script} --seed 4" in done.stdout
    assert "worker1" in out.read_text(encoding="utf-8")


def code_of(words: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("plotly", "files"), [("cdn", 1), ("file", 2)])
def test_a_page_without_plotly_is_small(plotly: str, files: int, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    assert code_of(["timeline", "204", "--plotly", plotly, "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert len(text) < 2_000_000
    written = {path.name for path in tmp_path.iterdir()} - {page.name}
    assert len(written) == files - 1
    for name in written:
        assert f'<script src="{name}"></script>' in text
        assert (tmp_path / name).read_text(encoding="utf-8") == get_plotlyjs()
    if plotly == "cdn":
        digest = b64encode(sha256(get_plotlyjs().encode()).digest()).decode()
        assert f'src="https://cdn.plot.ly/plotly-{get_plotlyjs_version()}.min.js"' in text
        assert f'integrity="sha256-{digest}"' in text


def test_the_log_has_a_legend(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(["replay", "--legend"]) == 0
    alone = capsys.readouterr().out
    for mark, said in LEGEND.values():
        assert f"{mark}  {said}" in alone
    assert code_of(["replay", "5", "--legend"]) == 0
    both = capsys.readouterr().out
    assert both.startswith(alone) and "task started" in both
    assert code_of(["replay", "5", "--log"]) == 0
    assert "The mark is in the column" not in capsys.readouterr().out, "it is no terminal"
    assert code_of(["replay"]) == 2
    assert "SCENARIO: expected a seed" in capsys.readouterr().err
