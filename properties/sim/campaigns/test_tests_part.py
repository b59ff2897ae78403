"""A suite of pytest as a part of a campaign: what its functions come to, whatever they do."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from squall.sim.campaigns.driver import drive
from squall.sim.campaigns.file import load_plan
from squall.sim.campaigns.parts import Part, part_of
from squall.sim.campaigns.parts.tests import TIMES_VARIABLE, Suite
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.pool import Pool
from squall.sim.campaigns.row import Row
from squall.sim.campaigns.store import CampaignStore
from squall.sim.cli.main import main as run_command

FILES = {
    "conftest.py": "",
    "test_a.py": """
import os, pytest, signal

def test_good():
    pass

@pytest.mark.parametrize("n", [1, 2, 3])
def test_some(n):
    assert n == 2

def test_ends_its_process():
    os._exit(7)

class TestMore:
    @pytest.mark.parametrize("n", [1, 2])
    def test_skipped_once(self, n):
        if n == 1:
            pytest.skip("for a reason")

def test_signals():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)

def test_interrupts_all():
    raise KeyboardInterrupt
""",
    "test_b.py": """
import pytest

@pytest.fixture
def late():
    yield
    raise ValueError("in the end")

def test_fails_late(late):
    pass

def test_well():
    pass
""",
    "test_c.py": "import no_such_module\n\ndef test_never():\n    pass\n",
}
NAMES = [
    "test_c.py",
    "test_a.py::test_good",
    "test_a.py::test_some",
    "test_a.py::test_ends_its_process",
    "test_a.py::TestMore::test_skipped_once",
    "test_a.py::test_signals",
    "test_a.py::test_interrupts_all",
    "test_b.py::test_fails_late",
    "test_b.py::test_well",
]
#: what those that fail say
TEXTS = {
    "test_c.py": "test: ModuleNotFoundError: No module named 'no_such_module'",
    "test_a.py::test_some": "test: 2 of 3, [1], [3]: assert 3 == 2",
    "test_a.py::test_ends_its_process": "test: its process ended with 7",
    "test_a.py::test_interrupts_all": "test: its process ended with 2",
    "test_b.py::test_fails_late": "test: ValueError: in the end",
}


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small suite and a campaign of it."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / ".squall"))
    tests = tmp_path / "tests"
    tests.mkdir()
    for name, text in FILES.items():
        (tests / name).write_text(text, encoding="utf-8")
    (tests / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "campaign.toml").write_text("[parts.tests]\npaths = ['tests']\n", encoding="utf-8")
    return tests


def part_in(folder: Path) -> Suite:
    (part,) = load_plan(folder.parent / "campaign.toml").parts
    assert isinstance(part, Suite)
    return part


def rows(part: Part, numbers: range | None = None) -> list[Row]:
    return list(part.rows(part.seeds if numbers is None else numbers, lambda: None))


def table(file: Path, plan: Plan, jobs: int, *, resume: bool = False) -> str:
    store = CampaignStore(file, plan.said(), resume=resume)
    try:
        drive(plan, store, Pool(jobs))
        return "".join(store.lines())
    finally:
        store.close()


def test_its_functions_and_what_they_come_to(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = tmp_path / "times.jsonl"
    monkeypatch.setenv(TIMES_VARIABLE, str(times))
    part = part_in(suite)
    assert part_of(json.loads(json.dumps(part.said()))) == part
    assert [part.name_of(number) for number in part.seeds] == NAMES
    found = rows(part)
    assert [row.seed for row in found] == list(part.seeds)
    assert {row.what: row.text for row in found if row.property} == TEXTS
    assert {row.property for row in found} == {"", "test"}
    events = dict(zip(NAMES, (row.events for row in found), strict=True))
    assert events["test_a.py::test_some"] == 3, "one for each parameter"
    assert events["test_a.py::TestMore::test_skipped_once"] == 1, "what is skipped does not run"
    assert part.again(found[2]) == "python -m pytest test_a.py::test_some"
    assert part.scenario(found[2]) is None
    told = [json.loads(line) for line in times.read_text(encoding="utf-8").splitlines()]
    assert [each["outcome"] for each in told].count("skipped") == 1
    assert {each["item"].partition("[")[0] for each in told} == set(NAMES) - {
        "test_c.py",
        "test_a.py::test_ends_its_process",
        "test_a.py::test_interrupts_all",
    }
    assert min(each["seconds"] for each in told) >= 0
    # wherever it is cut
    assert rows(part, range(2, 5)) == found[2:5]


def test_the_table_is_the_same_with_two_jobs_and_after_an_interrupt(
    suite: Path, tmp_path: Path
) -> None:
    plan = Plan((part_in(suite),), size=4)
    whole = table(tmp_path / "whole", plan, 2)
    assert whole.count('["lease"') == 3 and whole.count('["failure"') == 5

    def stop(judged: object) -> None:
        raise KeyboardInterrupt

    store = CampaignStore(tmp_path / "stopped", plan.said(), resume=False)
    with pytest.raises(KeyboardInterrupt):
        drive(plan, store, Pool(1), on_lease=stop)
    assert store.counts()[0] == 4
    store.close()
    assert table(tmp_path / "stopped", plan, 1, resume=True) == whole


def test_options_and_a_process_that_somebody_ends(suite: Path, tmp_path: Path) -> None:
    for name in ("test_a.py", "test_c.py"):
        (suite / name).unlink()
    mark = tmp_path / "mark"
    (suite / "test_d.py").write_text(
        "import os, pathlib\n"
        f"mark = pathlib.Path({str(mark)!r})\n"
        "def test_once():\n"
        "    if not mark.exists():\n"
        "        mark.touch()\n"
        f"        os.kill(os.getpid(), {signal.SIGKILL:d})\n"
        "def test_each_time():\n"
        f"    os.kill(os.getpid(), {signal.SIGKILL:d})\n"
        "def test_after():\n"
        "    pass\n",
        encoding="utf-8",
    )
    (tmp_path / "campaign.toml").write_text(
        "[parts.tests]\npaths = ['tests/test_b.py', 'tests/test_d.py']\n"
        "options = ['-k', 'not late']\nagain = ['-x']\n",
        encoding="utf-8",
    )
    part = part_in(suite)
    once, each_time, after = (
        "test_d.py::test_once",
        "test_d.py::test_each_time",
        "test_d.py::test_after",
    )
    assert part.functions == ("test_b.py::test_well", once, each_time, after)
    found = rows(part)
    assert [row.what for row in found] == ["", "", each_time, ""]
    assert found[2].text == "test: its process ended with -9"
    assert part.again(found[2]) == f"python -m pytest {each_time} -x"


def test_files_that_have_changed_are_not_judged(suite: Path) -> None:
    part = part_in(suite)
    (suite / "conftest.py").write_text("import os\n", encoding="utf-8")
    (row, *_) = rows(part, range(3))
    assert (row.property, row.what) == ("files", "other files")
    assert part_in(suite).said() != part.said(), "a store of the one is none of the other"


def test_a_report_names_what_failed(
    suite: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (suite / "test_a.py").unlink()
    monkeypatch.chdir(suite.parent)
    with pytest.raises(SystemExit) as ended:
        run_command(["campaign", "campaign.toml", "--json"])
    said = capsys.readouterr()
    assert ended.value.code == 1
    report = json.loads(said.out)
    assert (report["scenarios"], report["failed"]) == (3, 2)
    late = report["failures"][-1]
    assert (late["property"], late["what"]) == ("test", "test_b.py::test_fails_late")
    assert late["replay"] == "python -m pytest test_b.py::test_fails_late"
    assert "tests, test_b.py::test_fails_late: test: ValueError: in the end" in said.err
    assert report["parts"][0]["kind"] == "tests"


def test_a_suite_of_which_nothing_can_be_run(suite: Path) -> None:
    part = part_in(suite)
    (suite / "conftest.py").write_text("import no_such_module\n", encoding="utf-8")
    part = Suite(**{**vars(part), "stamp": part.stamped()})
    found = rows(part, range(1, 3))
    assert [row.what for row in found] == NAMES[1:3]
    assert all("pytest ended with 4: " in row.text for row in found), found
