"""A server that other machines can reach: who is answered, and what it does for nobody."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from squall.properties.support.commands import ROOT
from squall.sim.cli.main import main
from squall.sim.scenarios.store import Store, StorePlace
from squall.sim.search.draw import draw
from squall.sim.serve.access import COOKIE, Access, is_loopback
from squall.sim.serve.server import Server

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    place = StorePlace(tmp_path / "store")
    Store(place).keep(draw(1), found_by="fuzz")
    server = Server(place, 0, host="0.0.0.0", access=TOKEN)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(
    server: Server, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request(method, path, headers=headers or {})
    return connection.getresponse()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Cookie": f"{COOKIE}=something-else"},
        {"Cookie": ";;="},
        {"Authorization": "Bearer something-else"},
        {"Authorization": f"Basic {TOKEN}"},
    ],
)
def test_without_the_token_nothing_is_shown(server: Server, headers: dict[str, str]) -> None:
    for path in ("/", "/campaign", "/?token=wrong", "/run/none"):
        answer = ask(server, path, headers)
        assert answer.status == 403
        assert "for those who have its token" in answer.read().decode()


def test_a_browser_gets_the_token_as_a_cookie_and_an_address_without_it(server: Server) -> None:
    answer = ask(server, f"/?token={TOKEN}")
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    shown = ask(server, "/", {"Cookie": cookie.partition(";")[0]})
    assert shown.status == 200
    assert "What is kept in" in shown.read().decode()


def test_a_program_sends_the_token_as_a_header(server: Server) -> None:
    assert ask(server, "/", {"Authorization": f"Bearer {TOKEN}"}).status == 200


def test_nothing_runs_for_another_machine(server: Server) -> None:
    answer = ask(server, "/compare", {"Authorization": f"Bearer {TOKEN}"}, "POST")
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


def test_the_address_that_is_told_has_the_token(server: Server) -> None:
    assert server.url.endswith(f":{server.server_port}/?token={TOKEN}")


def test_a_server_for_others_is_not_made_without_a_token(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has a token"):
        Server(StorePlace(tmp_path), 0, host="0.0.0.0")


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.8.0.9", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("a-machine", False),
    ],
)
def test_which_addresses_only_this_machine_can_ask(host: str, alone: bool) -> None:
    assert is_loopback(host) == alone


def test_an_empty_token_fits_nothing() -> None:
    assert not Access(None).fits("")
    assert Access(None).known(None, None)


def test_the_token_is_not_in_what_the_command_logs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "squall", "serve", "--host", "0.0.0.0", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--json", "--store", str(tmp_path), "--token", TOKEN],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    url = json.loads(process.stdout.readline())["url"]
    port = int(url.split(":")[2].split("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"/?token={TOKEN}")
    assert connection.getresponse().status == 303
    process.terminate()
    _, log = process.communicate(timeout=60)
    assert "GET /?token=..." in log
    assert TOKEN not in log


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--token", TOKEN], "--token: goes with --host; 127.0.0.1 is this machine alone"),
        (["--host", "0.0.0.0", "--token", "short"], "--token: expected at least 16 letters"),
        (["--host", "0.0.0.0", "--token", "ends with a space and ;"], "--token: expected at least"),
        (["--host", "no-such-machine.invalid"], "--host: cannot listen on no-such-machine.invalid"),
        (["--campaign", "nowhere.sqlite"], "--campaign: nowhere.sqlite"),
    ],
)
def test_bad_input_is_named(
    arguments: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--port", "0", "--store", str(tmp_path), *arguments])
    assert ended.value.code == 2
    assert problem in " ".join(capsys.readouterr().err.split())
