"""The table of verdicts does not depend on how often, by how many and in which order leases ran."""

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tracemalloc
from multiprocessing import active_children
from pathlib import Path

import pytest

from squall.properties.support.waiting import wait_for
from squall.sim.campaigns.driver import drive
from squall.sim.campaigns.lease import Row, judged
from squall.sim.campaigns.parts import Part
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.pool import SILENCE_S, TRIES, Pool
from squall.sim.campaigns.store import CampaignStore, CampaignStoreError, merge
from squall.sim.cli.main import main as run_command
from squall.sim.scenarios.store import Store
from squall.sim.search.mutants.mutant import Mutant

PLAN = Plan((Part("plain", range(2)), Part("rough", range(8), "rough")), size=2)
#: squall campaign of the same seeds as the second part
COMMAND = [sys.executable, "-m", "squall.sim.cli.entry", "campaign", "--seeds", "0:8"]
COMMAND += ["--faults", "rough", "--lease", "2", "--json", "--jobs", "2"]
#: the same bug, that of a scenario that never ends and that of one that takes its process with it
_HANG = "import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM}); time.sleep(600)"
_DIE = "import os; os._exit(3)"


def table(file, plan=PLAN, resume=False, jobs=1, **options):
    store = CampaignStore(file, plan.said(), resume=resume)
    try:
        drive(plan, store, Pool(jobs), **options)
        return "".join(store.lines())
    finally:
        store.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return table(tmp_path_factory.mktemp("whole") / "db")


def test_the_table_is_the_same_with_workers_killed_and_after_a_resume(tmp_path, whole):
    assert whole.count('["lease"') == 5

    kills = []

    def kill(judged):
        kills.append(judged.lease)
        if len(kills) < TRIES:  # as often at one seed, it would have failed
            for child in active_children():
                os.kill(child.pid, signal.SIGKILL)

    assert table(tmp_path / "killed", jobs=2, on_lease=kill) == whole

    def leave(judged):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table(tmp_path / "left", jobs=2, on_lease=leave)
    assert table(tmp_path / "left", jobs=2, resume=True) == whole


def test_shares_come_to_the_same_when_they_are_merged(tmp_path, whole):
    files = []
    for index in range(2):
        files.append(tmp_path / str(index))
        share = Plan(PLAN.parts, PLAN.size, index, 2)
        assert table(files[-1], share) not in ("", whole)
    with pytest.raises(CampaignStoreError, match="share was '0 of 2' and is '1 of 2' now"):
        CampaignStore(files[0], share.said(), resume=True)
    store, plan = merge(files[::-1], tmp_path / "all", resume=False)
    assert plan == PLAN
    assert "".join(store.lines()) == whole
    store.close()


def test_files_that_do_not_belong_together(tmp_path):
    names = ("other", "text", "empty", "mine", "yours")
    other, text, empty, mine, yours = (tmp_path / name for name in names)
    said = PLAN.said()
    CampaignStore(other, said | {"torch": "0"}, resume=False).close()
    text.write_text("no database " * 100, encoding="utf-8")
    empty.touch()
    lease = next(PLAN.leases())
    for file, rows in ((mine, []), (yours, [(0, "rrefs", "x", "", 0, "")])):
        store = CampaignStore(file, said, resume=False)
        store.take([judged(lease, [Row(*row) for row in rows])])
        store.close()
    for files, problem in (
        ([mine, other], "torch is '0' there"),
        ([text], "file is not a database"),
        ([empty], "holds no campaign"),
        ([tmp_path / "none"], "unable to open"),
        ([mine, yours], "part plain, are not those of"),
    ):
        with pytest.raises(CampaignStoreError, match=problem):
            merge(files, tmp_path / f"into {len(problem)}", resume=False)


def test_a_campaign_of_other_code_is_refused(tmp_path):
    CampaignStore(tmp_path / "db", PLAN.said() | {"code": "before"}, resume=False).close()
    with pytest.raises(
        CampaignStoreError, match=r"code was 'before' and is '.*' now: verdicts would"
    ):
        CampaignStore(tmp_path / "db", PLAN.said(), resume=True)


def planted(new):
    """A bug in what every call goes through."""
    return Mutant(
        name="planted",
        place="future:Future._tell",
        old="    while waiting:",
        new=f"    {new}\n    while waiting:",
        wrong="the process does not go on",
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("new", "silence_s", "what"),
    [(_HANG, 1.0, "no verdict in time"), (_DIE, SILENCE_S, "the process ended")],
    ids=["hangs", "ends its process"],
)
def test_a_scenario_that_hangs_or_ends_its_process_fails(tmp_path, new, silence_s, what):
    plan = Plan((Part("rough", range(1), "rough"),), size=1)
    processes = []
    store = CampaignStore(tmp_path / "db", plan.said(), resume=False)
    with planted(new).apply():
        drive(
            plan,
            store,
            Pool(silence_s=silence_s),
            on_lease=lambda judged: processes.append(judged.pid),
        )
    (kind,) = store.kinds()
    assert (kind.property, kind.what, kind.seed) == ("progress", what, 0)
    assert kind.text.endswith(f"{TRIES} times")
    assert len(processes) == 1
    store.close()
    table(tmp_path / "mended", plan)


def test_failures_are_kept_told_once_and_told_again(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SQUALL_STORE", raising=False)
    words = ["campaign", "--seeds", "0:2", "--faults", "rough", "--lease", "2", "--json"]

    def told(*more):
        with pytest.raises(SystemExit) as ended:
            run_command([*words, *more])
        assert ended.value.code == 1
        said = capsys.readouterr()
        return json.loads(said.out), said.err

    with planted(_DIE).apply():
        first, err = told()
    (failure,) = first["failures"]
    assert (first["outcome"], first["failed"], failure["scenarios"]) == ("failed", 2, 2)
    assert failure["replay"] == "squall replay 0 --faults rough"
    assert err.count("  again: squall replay 0 --faults rough\n") == 1
    assert "seed 1" not in err
    kept = Store().find(Path(failure["file"]).stem)
    assert kept is not None
    assert (kept.found_by, kept.key) == ("campaign", ("progress", "the process ended"))
    second, again = told("--resume")
    assert again == err
    assert second["judged_now"] == 0
    assert [found_in(each) for each in second["failures"]] == [found_in(failure)]


def found_in(failure):
    """What a failure says, but for when it was looked for last."""
    return {name: value for name, value in failure.items() if name != "versions"}


def command(folder, *words, **options):
    environment = {**os.environ, "SQUALL_STORE": str(folder / "kept")}
    return subprocess.Popen(
        [*COMMAND, *words], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def leases_in(file):
    if not file.exists():
        return 0
    db = sqlite3.connect(file)
    try:
        return db.execute("SELECT count(*) FROM lease").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        db.close()


def test_a_killed_driver_goes_on(tmp_path, whole):
    driver = command(tmp_path)
    file = tmp_path / "campaign.sqlite"
    wait_for(lambda: leases_in(file) > 0, "a lease in the store")
    driver.kill()
    driver.communicate()
    before = leases_in(file)
    out, err = command(tmp_path, "--resume").communicate()
    said = json.loads(out)
    assert (said["outcome"], said["judged"], err) == ("ok", 8, "")
    assert said["judged_now"] == 8 - 2 * before
    plan = Plan(PLAN.parts[1:], size=2)
    lines = table(file, plan, resume=True).splitlines()
    assert lines == [line for line in whole.splitlines() if '"rough"' in line]


def test_a_second_driver_is_refused(tmp_path):
    plan = Plan(PLAN.parts[1:], size=2)
    store = CampaignStore(tmp_path / "campaign.sqlite", plan.said(), resume=False)
    driver = command(tmp_path, "--resume")
    _, err = driver.communicate()
    store.close()
    assert driver.returncode == 2
    assert err.strip().endswith("another campaign is writing into it")


def test_a_full_disk_loses_nothing(tmp_path, whole):
    plan = Plan(PLAN.parts[1:], size=2)
    file = tmp_path / "campaign.sqlite"

    def leave(judged):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table(file, plan, on_lease=leave)
    limit = 4 * 4096  # the pages of leases come after these
    driver = command(
        tmp_path,
        "--resume",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, [limit] * 2),
    )
    _, err = driver.communicate()
    assert driver.returncode == 2, err
    (line,) = err.splitlines()
    assert line.startswith("squall: --store: ")
    assert "campaign.sqlite: d" in line  # disk I/O error, or database or disk is full
    assert leases_in(file) == 1
    lines = table(file, plan, resume=True).splitlines()
    assert lines == [line for line in whole.splitlines() if '"rough"' in line]


def test_leases_take_no_memory():
    seeds = range(50_000_000)
    plan = Plan((Part("plain", seeds), Part("rough", seeds, "rough")), size=1000)
    tracemalloc.start()
    count = sum(1 for _ in plan.leases())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 100_000
    assert peak < 100_000
