"""Drivers that write into a database of a server, which goes away and comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from squall.properties.sim.campaigns.test_store import PLAN, filled, made_up
from squall.properties.support.cut_network import CutNetwork
from squall.properties.support.postgresql import Server
from squall.properties.support.waiting import wait_for
from squall.sim.campaigns.address import Address
from squall.sim.campaigns.database import Asked
from squall.sim.campaigns.parts import Part
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.store import CampaignStore, CampaignStoreError
from squall.sim.campaigns.store_reader import open_store
from squall.sim.cli.main import main as run_command
from squall.sim.world.sandbox import Contained

SEEDS = 16
COMMAND = [sys.executable, "-m", "squall.sim.cli.entry", "campaign", "--seeds", f"0:{SEEDS}"]
COMMAND += ["--faults", "rough", "--lease", "2", "--json"]
#: the same
PLAYED = Plan((Part("rough", range(SEEDS), "rough"),), size=2)


class Command:
    """A driver in a process of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        environment = {**os.environ, "SQUALL_STORE": str(folder / "kept")}
        self.process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def end(self, code: int = 0) -> tuple[dict[str, object], str]:
        """Its report, and what else it has said."""
        out, err = self.process.communicate()
        assert self.process.returncode == code, f"{out}\n{err}"
        report: dict[str, object] = json.loads(out)
        return report, err


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The table of the campaign in a file, and its hash."""
    folder = tmp_path_factory.mktemp("alone")
    report, _ = Command(folder, "--store", "db").end()
    store = open_store(folder / "db")
    lines = "".join(store.lines())
    store.close()
    return lines, str(report["verdicts"])


def table(url: str) -> str:
    store = open_store(Address.read(url))
    try:
        return "".join(store.lines())
    finally:
        store.close()


def leases(server: Server, database: str) -> int:
    try:
        return int(str(server.execute(database, "SELECT count(*) FROM lease")[0][0]))
    except Exception:
        return 0


@pytest.mark.deep("three drivers at once")
def test_drivers_of_all_shares_at_once(
    tmp_path: Path, postgresql: Server, database: str, alone: tuple[str, str]
) -> None:
    url = postgresql.url(database)
    shares = [Command(tmp_path, "--store", url, "--index", f"{index}/3") for index in range(3)]
    ended = [share.end() for share in shares]
    assert table(url) == alone[0]
    judged = [report["judged"] for report, _ in ended]
    assert judged == [report["judged_now"] for report, _ in ended] == [6, 6, 4]
    for report, err in ended:
        assert (report["outcome"], report["scenarios"], err) == ("ok", report["judged"], "")
        assert postgresql.password not in json.dumps(report)
        assert str(report["store"]).startswith("postgresql://postgres:***@127.0.0.1:")
    whole, _ = Command(tmp_path, "--store", url, "--resume").end()
    assert (whole["judged"], whole["judged_now"], whole["verdicts"]) == (SEEDS, 0, alone[1])


@pytest.mark.deep("waits for a server again and again")
def test_a_server_that_ends_in_the_middle_of_a_campaign(
    tmp_path: Path, postgresql: Server, database: str, alone: tuple[str, str]
) -> None:
    url = postgresql.url(database)
    driver = Command(tmp_path, "--store", url, "--jobs", "2")
    wait_for(lambda: leases(postgresql, database) > 0, "a lease in the store")
    postgresql.kill()
    time.sleep(3)
    assert driver.process.poll() is None
    postgresql.start()
    report, err = driver.end()
    lost, there = err.splitlines()
    shown = Address.read(url)
    assert lost.startswith(f"{shown}: ")
    assert lost.endswith(": trying again, nothing is lost")
    assert there.startswith(f"{shown}: there again after ")
    assert postgresql.password not in err
    assert (report["judged"], report["judged_now"]) == (SEEDS, SEEDS)
    assert (table(url), report["verdicts"]) == alone


@pytest.mark.deep("waits for a server again and again")
def test_an_interrupt_ends_the_waiting_for_a_server(
    tmp_path: Path, postgresql: Server, database: str, alone: tuple[str, str]
) -> None:
    url = postgresql.url(database)
    driver = Command(tmp_path, "--store", url)
    wait_for(lambda: leases(postgresql, database) > 0, "a lease in the store")
    postgresql.stop()
    assert driver.process.stderr is not None
    assert "trying again" in driver.process.stderr.readline()
    driver.process.send_signal(signal.SIGINT)
    report, _ = driver.end(130)
    assert report["outcome"] == "interrupted"
    postgresql.start()
    assert leases(postgresql, database) > 0
    report, _ = Command(tmp_path, "--store", url, "--resume").end()
    assert (table(url), report["verdicts"]) == alone


@pytest.mark.parametrize("on_server", [False, True], ids=["file", "server"])
def test_a_driver_that_is_killed_in_a_transaction(
    tmp_path: Path, request: pytest.FixtureRequest, on_server: bool
) -> None:
    address = Address(tmp_path / "db")
    if on_server:
        server, database = (request.getfixturevalue(name) for name in ("postgresql", "database"))
        address = Address.read(server.url(database))
    died = Contained(_take_and_die, address)
    assert died.wait() == -signal.SIGKILL
    done = list(made_up(PLAN))
    store = _again(address)
    assert store.counts()[0] == len(done[0].lease.seeds)
    assert store.take(done) == done[1:]
    whole = filled(tmp_path / "whole")
    assert store.verdicts() == whole.verdicts()
    whole.close()
    store.close()


def _take_and_die(connection: object, address: Address) -> None:
    done = list(made_up(PLAN))
    store = CampaignStore(address, PLAN.said(), resume=False)
    store.take(done[:1])
    with before_commits(lambda: os.kill(os.getpid(), signal.SIGKILL)):
        store.take(done[1:])


@contextmanager
def before_commits(does: Callable[[], object]) -> Iterator[None]:
    """Meanwhile it is called before the end of each transaction."""

    def ask(asked: Asked, command: str, *values: object) -> list[tuple[Any, ...]]:
        if command == "COMMIT":
            does()
        return original(asked, command, *values)

    original = Asked.ask
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Asked, "ask", ask)
        yield


def _again(address: Address) -> CampaignStore:
    """A server may need a moment to see that a driver has ended."""

    def open_again() -> CampaignStore | None:
        with suppress(CampaignStoreError):
            return CampaignStore(address, PLAN.said(), resume=True)
        return None

    store = wait_for(open_again, "a store that nobody else writes into")
    assert store is not None
    return store


@pytest.fixture
def network(postgresql: Server) -> Iterator[CutNetwork]:
    between = CutNetwork(postgresql.port)
    yield between
    between.close()


def through(network: CutNetwork, server: Server, database: str) -> Address:
    return Address.read(server.url(database).replace(f":{server.port}/", f":{network.port}/"))


def test_a_network_that_is_cut_when_all_is_taken(
    postgresql: Server, database: str, network: CutNetwork
) -> None:
    said: list[str] = []
    address = through(network, postgresql, database)
    store = CampaignStore(address, PLAN.said(), resume=False, tell=said.append)
    done = list(made_up(PLAN))

    def keep_the_answer() -> None:
        if not said:
            network.keep_answers()
            Timer(1.0, lambda: (network.cut(), network.mend())).start()

    with before_commits(keep_the_answer):
        assert store.take(done) == done
    assert len(said) == 2
    assert store.counts()[0] == 42
    assert store.take(done) == []
    store.close()


def test_a_network_that_is_cut(
    tmp_path: Path, postgresql: Server, database: str, network: CutNetwork
) -> None:
    said: list[str] = []
    address = through(network, postgresql, database)
    store = CampaignStore(address, PLAN.said(), resume=False, tell=said.append)
    done = list(made_up(PLAN))
    assert store.take(done[:5]) == done[:5]
    network.cut()
    Timer(1.5, network.mend).start()
    # the server still knows the connection that was cut, and what was locked in it
    assert store.take(done[5:]) == done[5:]
    lost, there = said
    assert lost.endswith("trying again, nothing is lost")
    assert "there again after " in there
    whole = filled(tmp_path / "whole")
    assert "".join(store.lines()) == "".join(whole.lines())
    whole.close()
    store.close()


def test_somebody_else_has_the_share_when_the_network_is_mended(
    postgresql: Server, database: str, network: CutNetwork
) -> None:
    address = through(network, postgresql, database)
    store = CampaignStore(address, PLAN.said(), resume=False)
    network.cut()
    postgresql.execute(
        database,
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE application_name LIKE 'squall %'",
    )
    other = CampaignStore(Address.read(postgresql.url(database)), PLAN.said(), resume=True)
    network.mend()
    with pytest.raises(CampaignStoreError, match="another campaign is writing into it"):
        store.take(list(made_up(PLAN)))
    other.close()
    store.close()


def test_patience_ends(postgresql: Server, database: str, network: CutNetwork) -> None:
    address = through(network, postgresql, database)
    store = CampaignStore(address, PLAN.said(), resume=False, patience_s=0.5)
    network.cut()
    with pytest.raises(CampaignStoreError) as refusal:
        store.take(list(made_up(PLAN)))
    assert str(refusal.value).startswith(f"{address}: ")
    assert "\n" not in str(refusal.value)
    store.close()


@pytest.mark.deep("fills a disk")
def test_a_server_whose_disk_is_full(
    tmp_path: Path, postgresql: Server, database: str, alone: tuple[str, str]
) -> None:
    url = postgresql.url(database)
    share = Command(tmp_path, "--store", url, "--index", "0/2")
    share.end()
    before = leases(postgresql, database)
    # what PostgreSQL says then, where it writes a lease
    postgresql.execute(
        database,
        "CREATE FUNCTION full_disk() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION "
        "'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$ "
        "LANGUAGE plpgsql",
    )
    postgresql.execute(
        database,
        "CREATE TRIGGER full_disk BEFORE INSERT ON lease EXECUTE FUNCTION full_disk()",
    )
    report, err = Command(tmp_path, "--store", url, "--resume").end(2)
    (line,) = err.splitlines()
    assert line == f"squall: {report['message']}"
    assert line.endswith("could not extend file: No space left on device")
    assert leases(postgresql, database) == before
    postgresql.execute(database, "DROP TRIGGER full_disk ON lease")
    report, _ = Command(tmp_path, "--store", url, "--resume").end()
    assert (table(url), report["verdicts"]) == alone


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that the command says."""
    with pytest.raises(SystemExit) as ended:
        run_command(["campaign", *words, "--json"])
    said = capsys.readouterr()
    assert ended.value.code == 2, said
    (line,) = said.err.splitlines()
    report = json.loads(said.out)
    assert (report["outcome"], f"squall: {report['message']}") == ("bad input", line)
    assert "secret" not in said.out + said.err
    return line


def test_a_server_that_cannot_be_reached(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    postgresql: Server,
    free_port: int,
) -> None:
    shown = f"squall: --store: postgresql://who:***@127.0.0.1:{free_port}/night: "
    line = refusal(capsys, "--store", f"postgresql://who:secret@127.0.0.1:{free_port}/night")
    assert line.startswith(shown)
    assert "Connection refused" in line
    line = refusal(capsys, "--store", "postgresql://who:secret@no.such.host.invalid/night")
    assert "no.such.host.invalid" in line
    wrong = f"postgresql://postgres:secret@127.0.0.1:{postgresql.port}/postgres"
    assert "password authentication failed" in refusal(capsys, "--store", wrong)
    missing = refusal(capsys, "--store", postgresql.url("no_such_database"))
    assert 'database "no_such_database" does not exist' in missing
    assert postgresql.password not in missing
    for text_, problem in (
        ("mysql://who:secret@host/night", "expected a file or postgresql://…, got mysql://…"),
        ("postgresql://who:secret@host", "expected the name of a database"),
        ("postgresql://who:secret@host:5x/night", "expected a file or postgresql://USER@HOST"),
        ("postgresql://who:secret@h/d?no_such_option=1", "no_such_option"),
    ):
        assert problem in refusal(capsys, "--store", text_)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    line = refusal(capsys, "--store", f"postgresql://who:secret@127.0.0.1:{free_port}/night")
    assert line == f"{shown}needs psycopg: pip install 'squall[postgresql]'"
