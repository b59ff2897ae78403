"""``squall serve``: what it shows, and which requests it refuses."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from email.message import Message
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlencode

import pytest
from plotly.offline import get_plotlyjs

from squall.model.coverage.behaviour import pairs_of
from squall.model.coverage.growth import Seen
from squall.model.coverage.history import history_of
from squall.properties.support.commands import ROOT
from squall.sim.cli.main import main
from squall.sim.names import PlotlyFrom
from squall.sim.pictures.figure_page import figure_scripts
from squall.sim.pictures.plotly_js import linked, plotly_file
from squall.sim.scenario import Expected, Scenario, Script
from squall.sim.scenarios.file import dump_scenario, name_of
from squall.sim.scenarios.store import Store, StorePlace
from squall.sim.search.draw import draw
from squall.sim.serve.painter import RUNS_MAX, WAITING_MAX, Painter
from squall.sim.serve.server import ADDRESS, Server

SECRET = "this file is none of the page's business"


def scenario(seed: int) -> Scenario:
    expected = Expected(
        digest="0" * 32, outcome="failed", property="rrefs", what="an owner <was> left"
    )
    return replace(draw(seed), expected=expected)


@pytest.fixture
def plotly() -> PlotlyFrom:
    return "inline"


@pytest.fixture
def server(tmp_path: Path, plotly: PlotlyFrom) -> Iterator[Server]:
    place = StorePlace(tmp_path / "store")
    for seed in (1, 2):
        Store(place).keep(scenario(seed), found_by="fuzz", text="what was seen")
    runs = place.runs
    runs.mkdir()
    run = replace(scenario(3), expected=Expected())
    (runs / f"{name_of(run)}.json").write_text(dump_scenario(run), encoding="utf-8")
    (tmp_path / "secret.json").write_text(json.dumps({"note": SECRET}), encoding="utf-8")
    (runs / "escape.json").symlink_to(tmp_path / "secret.json")
    server = Server(place, 0, plotly=plotly)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(
    server: Server,
    path: str,
    *,
    method: str = "GET",
    host: str | None = None,
    site: str | None = None,
    form: dict[str, str] | None = None,
) -> tuple[int, str, Message]:
    connection = http.client.HTTPConnection(ADDRESS, server.server_port, timeout=200)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"{ADDRESS}:{server.server_port}")
        if site is not None:
            connection.putheader("Sec-Fetch-Site", site)
        body = urlencode(form or {}).encode()
        if body:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8"), answer.headers
    finally:
        connection.close()


def start(server: Server, path: str, **form: str) -> tuple[int, str, Message]:
    """Press the button that starts ``path``, and go where that leads."""
    form = {"token": server.token, **form}
    answer = ask(server, path, method="POST", site="same-origin", form=form)
    return ask(server, answer[2]["Location"]) if answer[0] == 303 else answer


def test_it_lists_failures_and_runs(server: Server) -> None:
    status, page, headers = ask(server, "/")
    assert status == 200
    assert "Failures (2)" in page and "Runs (1)" in page
    for seed in (1, 2, 3):
        assert f'href="/run/{name_of(scenario(seed))}"' in page
    assert "an owner &lt;was&gt; left" in page
    assert "escape" not in page
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe-inline" not in headers["Content-Security-Policy"]


def test_it_shows_where_a_campaign_has_been(server: Server) -> None:
    assert "Campaigns" not in ask(server, "/")[1]
    folder = server.library.place.folder / "coverage"
    folder.mkdir()
    seen = Seen()
    seen.add(sorted(pairs_of(["a", "b"])), ["a crash during a pass"])
    times = {"a crash during a pass": 1, "a pause during a pass": 0}
    history = history_of(seen, times, {"seeds": 1}, "seeds <0:1>")
    (folder / "17-0123abcd.json").write_text(history.model_dump_json(), encoding="utf-8")
    (folder / "18-0123abcd.json").write_text("{", encoding="utf-8")
    (folder / "19-0123abcd.json").symlink_to(server.library.place.folder.parent / "secret.json")
    page = ask(server, "/")[1]
    assert "Campaigns (1)" in page and "seeds &lt;0:1&gt;" in page and "1 of 2" in page
    assert 'href="/coverage/17-0123abcd"' in page
    status, page, headers = ask(server, "/coverage/17-0123abcd")
    assert status == 200
    assert "<h1>seeds &lt;0:1&gt;</h1>" in page and 'id="packed"' in page
    assert "'unsafe-inline'" not in headers["Content-Security-Policy"]
    for script in figure_scripts():
        digest = b64encode(sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in headers["Content-Security-Policy"]
    for name in ("18-0123abcd", "19-0123abcd", "../../secret", "nothing"):
        status, page, _ = ask(server, f"/coverage/{name}")
        assert status == 404 and SECRET not in page


def test_it_draws_a_run_when_asked(server: Server) -> None:
    name = name_of(scenario(1))
    status, page, _ = start(server, f"/run/{name}")
    assert status == 200
    assert 'data-view="space_time"' in page and f"<h1>{name}</h1>" in page
    assert ask(server, f"/run/{name}")[1] == page


@pytest.mark.parametrize("plotly", ["file", "cdn"])
def test_pages_may_have_plotly_from_elsewhere(server: Server, plotly: PlotlyFrom) -> None:
    status, page, headers = start(server, f"/run/{name_of(scenario(1))}")
    link = linked(plotly)
    assert link is not None and f'<script src="{link.src}"' in page
    assert status == 200 and len(page) < 500_000
    allowed = "'self'" if plotly == "file" else link.src
    assert allowed in headers["Content-Security-Policy"].partition("script-src")[2].split(";")[0]
    status, script, headers = ask(server, f"/run/{plotly_file()}", site="same-origin")
    assert (status, script) == (200, get_plotlyjs())
    assert headers["Content-Type"].startswith("text/javascript")


def test_it_compares_two_runs_from_where_they_part(server: Server) -> None:
    one, other = name_of(scenario(1)), name_of(scenario(2))
    status, page, _ = start(server, "/compare", a=one, b=other)
    assert status == 200
    assert page == ask(server, f"/compare?a={one}&b={other}")[1]
    for name in (one, other):
        assert 'data-view="space_time"' in ask(server, f"/run/{name}")[1]
    assert f'src="/run/{one}#event=' in page and f'src="/run/{other}#event=' in page
    assert "part at event" in page
    assert "They are the same run" in start(server, "/compare", a=one, b=one)[1]
    assert ask(server, f"/compare?a={one}")[0] == 400
    assert ask(server, f"/compare?a={one}&b=nobody")[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "/run/escape",
        "/run/../secret",
        "/run/..%2fsecret",
        "/run/%2e%2e/%2e%2e/secret.json",
        "/run//etc/passwd",
        "/run/secret%00",
        "/../secret.json",
        "/secret.json",
        "/compare?a=../secret&b=../secret",
        "/failures.db",
    ],
)
def test_no_path_leads_out_of_the_store(server: Server, path: str) -> None:
    status, page, _ = ask(server, path)
    assert status == 404
    assert SECRET not in page and "root:" not in page


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(server: Server, method: str) -> None:
    before = sorted(str(path) for path in server.library.place.folder.rglob("*"))
    status, _, headers = ask(server, "/", method=method)
    assert status == 405 and headers["Allow"] == "GET, HEAD, POST"
    assert sorted(str(path) for path in server.library.place.folder.rglob("*")) == before


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_nothing_runs_unless_a_button_is_pressed(server: Server, method: str) -> None:
    one, other = (name_of(scenario(seed)) for seed in (1, 2))
    for path in ("/", f"/run/{one}", f"/compare?a={one}&b={other}"):
        status, page, _ = ask(server, path, method=method)
        assert status == 200 and "data-view" not in page and "part at event" not in page
        assert method == "HEAD" or f'value="{server.token}"' in page
    assert drawn(server) == []


@pytest.mark.parametrize("form", [{}, {"token": ""}, {"token": "guessed"}, {"token": "t" * 5000}])
def test_a_form_of_another_page_starts_nothing(server: Server, form: dict[str, str]) -> None:
    one, other = (name_of(scenario(seed)) for seed in (1, 2))
    assert ask(server, f"/run/{one}", method="POST", form=form)[0] == 403
    assert ask(server, "/compare", method="POST", form={**form, "a": one, "b": other})[0] == 403
    ours = {"token": server.token}
    assert ask(server, f"/run/{one}", method="POST", form=ours, site="cross-site")[0] == 403
    assert ask(server, f"/run/{one}", method="POST", form=ours, host="squall.example")[0] == 403
    assert drawn(server) == []


def drawn(server: Server) -> list[Path]:
    """What runs have left in the server's folder."""
    return list(Path(server.painter._folder.name).iterdir())


def test_a_script_from_elsewhere_is_shown_and_runs_where_that_is_allowed(
    server: Server, tmp_path: Path
) -> None:
    mark = tmp_path / "it-ran"
    work = Script(path="train.py", text=f"open({str(mark)!r}, 'w').close()  # <b>\n", workers=1)
    copied = server.library.place.runs / "copied.json"
    copied.write_text(dump_scenario(Scenario(work=work)), encoding="utf-8")
    status, page, _ = ask(server, "/run/copied")
    assert status == 200 and "--allow-scripts" in page and "<button>" not in page
    assert "# &lt;b&gt;" in page
    one = name_of(scenario(1))
    for asked in (start(server, "/run/copied"), start(server, "/compare", a=one, b="copied")):
        assert asked[0] == 403 and "copied.json has a Python script" in asked[1]
    with pytest.raises(ValueError, match=r"copied\.json has a Python script"):
        server.painter.page("copied", copied)  # nor does the process that draws
    assert not mark.exists()
    server.painter.scripts = True
    assert "<button>" in ask(server, "/run/copied")[1]
    status, page, _ = start(server, "/run/copied")
    assert status == 200 and 'data-view="space_time"' in page and mark.exists()


def test_a_head_has_no_body(server: Server) -> None:
    status, page, headers = ask(server, "/", method="HEAD")
    assert (status, page) == (200, "")
    assert int(headers["Content-Length"]) > 100


def test_another_host_name_is_refused(server: Server) -> None:
    assert ask(server, "/", host="squall.example")[0] == 403
    assert ask(server, "/", host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize(
    ("site", "status"),
    [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)],
)
def test_a_page_from_elsewhere_is_refused(server: Server, site: str, status: int) -> None:
    assert ask(server, "/", site=site)[0] == status


def test_more_runs_than_may_wait_are_refused(tmp_path: Path) -> None:
    painter = Painter()
    file = tmp_path / "scenario.json"
    file.write_text(dump_scenario(scenario(1)), encoding="utf-8")
    for _ in range(RUNS_MAX + WAITING_MAX):  # as many as may be under way or wait
        assert painter._places.acquire(blocking=False)
    with pytest.raises(ValueError, match="try again later"):
        painter.page("one more", file)
    painter._places.release()
    assert "<html" in painter.page("one more", file)
    painter.close()


def test_it_listens_on_this_machine_only(server: Server) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    outside = [
        info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    ]
    for address in outside:
        if not str(address).startswith("127."):
            with pytest.raises(OSError):
                socket.create_connection((str(address), server.server_port), timeout=1).close()


def test_a_store_without_anything_says_how_to_fill_it(tmp_path: Path) -> None:
    server = Server(StorePlace(tmp_path / "nothing"), 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    assert "squall fuzz" in ask(server, "/")[1]
    server.shutdown()
    thread.join()
    server.server_close()
    assert not (tmp_path / "nothing").exists(), "looking made nothing"


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "squall", "serve", "--port", "0", "--json", "--store", "."]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ},
    )  # fmt: skip
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    assert told["url"].startswith("http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--store", "no-such"], "squall: --store: there is no directory 'no-such'\n"),
        (["--port", "99999"], "squall: --port: expected an integer from 0 to 65535, got '99999'\n"),
    ],
)
def test_bad_input_of_the_command_is_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["serve", *words])
    assert left.value.code == 2
    assert capsys.readouterr().err == line
