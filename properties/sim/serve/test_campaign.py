"""The page of a campaign: what it says while others write, and of one that has found something."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from squall.model.coverage.behaviour import pairs_of
from squall.model.events.run import Violation
from squall.sim.campaigns.address import Address
from squall.sim.campaigns.coverage import history_in
from squall.sim.campaigns.lease import Row, failed_row, judged
from squall.sim.campaigns.parts import Part
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.status import LATELY_S, Status, status_of
from squall.sim.campaigns.store import CampaignStore
from squall.sim.campaigns.store_reader import open_store
from squall.sim.campaigns.tables import CANARY, TRIAGE
from squall.sim.scenario import Expected
from squall.sim.scenarios.store import Store, StorePlace
from squall.sim.search.draw import draw
from squall.sim.serve.campaign import CampaignView, speed_curve, words_of
from squall.sim.serve.html import campaign_page
from squall.sim.serve.server import Server

PLAN = Plan((Part("plain", range(400)), Part("rough", range(200), "rough")), size=100)
#: of seed 130, when one fails
BROKEN = Violation("rrefs", "an owner <was> left", "none", "one")
FAILED = failed_row(130, BROKEN, "0" * 32, 7)._replace(place="OWNER_CREATED")


def taken(file: Path, leases: int, *, fails: bool = False) -> None:
    """Let a store have so many leases of the plan, of one worker; the third has a failure."""
    store = CampaignStore(file, PLAN.said(), resume=file.exists())
    facts = sorted(pairs_of(map(str, range(6))))
    for at, lease in enumerate(list(PLAN.leases())[:leases]):
        rows = [FAILED if fails and seed == 130 else Row(seed, events=7) for seed in lease.seeds]
        found = judged(lease, rows, 17, 2.5)._replace(host="a-machine", worker="here")
        shown = found._replace(facts=tuple(facts[: at + 1]), situations=("a crash during a pass",))
        store.take([shown])
    store.close()


def status(file: Path, now: float | None = None) -> Status:
    store = open_store(file)
    try:
        return status_of(store, now)
    finally:
        store.close()


def test_a_campaign_that_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "night.sqlite"
    taken(file, 3)
    found = status(file)
    assert [(part.name, part.judged, part.scenarios) for part in found.parts] == [
        ("plain", 200, 400),
        ("rough", 100, 200),
    ]
    assert [part.facts for part in found.parts] == [3, 2]
    assert [part.reached for part in found.parts] == [1, 1]
    (worker,) = found.workers
    assert (worker.host, worker.name, worker.leases, worker.scenarios) == (
        "a-machine",
        "here",
        3,
        300,
    )
    assert worker.per_second == pytest.approx(40.0)
    assert found.outcome == "incomplete"
    assert words_of(found).startswith("300 of 600 scenarios, every property holds")


def test_who_has_ended_no_lease_lately_is_not_at_work(tmp_path: Path) -> None:
    file = tmp_path / "night.sqlite"
    taken(file, 3)
    found = status(file, time.time() + LATELY_S + 60)
    assert not found.workers
    assert words_of(found) == "300 of 600 scenarios, every property holds, nobody is at work"


def test_nothing_holds_of_what_was_not_judged(tmp_path: Path) -> None:
    file = tmp_path / "night.sqlite"
    taken(file, 0)
    assert words_of(status(file)) == "0 of 600 scenarios, nothing was judged yet, nobody is at work"


def test_nobody_is_at_work_at_a_campaign_that_has_ended(tmp_path: Path) -> None:
    file = tmp_path / "night.sqlite"
    taken(file, 3)
    assert "<h2>Workers (1 machine, 1 at work lately)</h2>" in campaign_page(status(file), [])
    taken(file, 6)
    assert "<h2>Workers (1 machine, 1 worker)</h2>" in campaign_page(status(file), [])


def test_a_campaign_that_has_ended(tmp_path: Path) -> None:
    file = tmp_path / "night.sqlite"
    taken(file, 6)
    assert status(file).outcome == "ok"
    assert words_of(status(file)) == "600 of 600 scenarios, every property holds"


def test_failures_have_what_is_known_of_them(tmp_path: Path) -> None:
    file = tmp_path / "night.sqlite"
    taken(file, 6, fails=True)
    store = CampaignStore(file, PLAN.said(), resume=True)
    version = {"squall": "0.1.0", "torch": "2.13.0", "code": "0" * 16, "at": 1.0}
    versions = [{**version, "shows": True}, {**version, "torch": "2.12.0", "shows": False}]
    known = {"property": "rrefs", "what": BROKEN.what, "place": "OWNER_CREATED", "at": time.time()}
    store.note(TRIAGE, {**known, "versions": json.dumps(versions)})
    store.close()
    found = status(file)
    # seed 130 is in both parts
    (kind,) = found.kinds
    assert (kind.part, kind.seed, kind.scenarios) == ("plain", 130, 2)
    assert kind.place == "OWNER_CREATED"
    assert kind.notes == ("shows on 1 of the 2 versions that it was looked for on",)
    assert found.outcome == "failed"
    assert words_of(found) == "600 of 600 scenarios, 2 failed, of 1 kind"


def test_a_planted_bug_that_lives_makes_the_campaign_blind(tmp_path: Path) -> None:
    file = tmp_path / "night.sqlite"
    taken(file, 6)
    store = CampaignStore(file, PLAN.said(), resume=True)
    for name, noticed in (("delete-not-sent", 12), ("join-counts-once", None)):
        row = {"part": "canaries", "name": name, "noticed": noticed, "scenarios": 40}
        store.note(CANARY, {**row, "seconds": 1.0, "at": time.time()})
    store.close()
    found = status(file)
    assert found.outcome == "blind"
    assert found.silent_canaries == ("join-counts-once",)
    assert words_of(found) == "600 of 600 scenarios, 1 planted bug not noticed"


def test_coverage_is_counted_by_scenarios_judged(tmp_path: Path) -> None:
    file = tmp_path / "night.sqlite"
    taken(file, 6)
    store = open_store(file)
    history = history_in(store, "plain")
    assert history_in(store, "storm") is None
    store.close()
    assert history is not None
    assert history.scenarios == 400
    assert history.facts == 6
    assert history.sets["p"][0] == 0, "nothing is known of the first scenario of a lease alone"
    assert history.reached["a crash during a pass"] == 100


def test_a_curve_needs_two_times() -> None:
    assert speed_curve([]) is None
    assert speed_curve([(10.0, 3.0)]) is None
    curve = speed_curve([(10.0, 3.0), (20.0, 6.0)])
    assert curve is not None
    assert (curve.most, curve.first, curve.last) == (6.0, 10.0, 20.0)


# -- as a browser sees it -------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "night.sqlite"
    taken(file, 4, fails=True)
    return file


@pytest.fixture
def server(tmp_path: Path, file: Path) -> Iterator[Server]:
    place = StorePlace(tmp_path / "store")
    server = Server(place, 0, campaign=CampaignView(Address(file)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def get(server: Server, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_the_page_is_what_the_command_tells(server: Server) -> None:
    assert server.url.endswith("/campaign")
    code, page = get(server, "/campaign")
    assert code == 200
    assert "400 of 600 scenarios" in page
    assert "an owner &lt;was&gt; left" in page
    assert '<meta http-equiv="refresh"' in page
    assert '<body class="alarm">' in page


def test_the_page_follows_the_store(server: Server, file: Path) -> None:
    taken(file, 6, fails=True)
    code, page = get(server, "/campaign")
    assert (code, "600 of 600 scenarios" in page) == (200, True)
    assert '<meta http-equiv="refresh"' not in page, "a campaign that has ended does not change"


def test_a_failure_that_is_kept_has_its_timeline(server: Server) -> None:
    scenario = draw(130)
    expected = Expected(digest="0" * 32, outcome="failed", property="rrefs", what=BROKEN.what)
    shown = replace(scenario, expected=expected)
    kept = Store(server.library.place).keep(shown, found_by="campaign")
    _, page = get(server, "/campaign")
    assert f'<a href="/run/{Path(kept.file).stem}">' in page


def test_the_same_as_json(server: Server) -> None:
    code, text = get(server, "/campaign.json")
    told = json.loads(text)
    assert (code, told["outcome"]) == (200, "failed")
    assert [part["judged"] for part in told["parts"]] == [300, 100]


def test_coverage_is_a_picture(server: Server) -> None:
    code, page = get(server, "/campaign/coverage/plain")
    assert code == 200
    assert "plain: what the campaign" in page
    assert get(server, "/campaign/coverage/nothing")[0] == 404


def test_the_list_leads_there(server: Server) -> None:
    assert '<a href="/campaign">' in get(server, "/")[1]


def test_a_store_that_has_gone_is_a_problem(server: Server, file: Path) -> None:
    file.unlink()
    code, page = get(server, "/campaign")
    assert code == 500
    assert "night.sqlite" in page


def test_without_a_campaign_there_is_no_page(tmp_path: Path) -> None:
    server = Server(StorePlace(tmp_path), 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        code, page = get(server, "/campaign")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert code == 404
    assert "--campaign STORE" in page
