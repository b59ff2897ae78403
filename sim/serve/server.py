"""A small page of this machine's own: what the store keeps, run by run, and two side by side.

It listens on 127.0.0.1 unless told otherwise, and answers only requests that name this machine as
their host, and none that a page from elsewhere makes. GET and HEAD run nothing: they show what has
been drawn. A run starts by a POST, the button of a page, which carries a token that only these pages
know. Nothing that comes with a request is ever a path: names are looked up in the listing of the
store, and a file that lies (or links) outside of it is not in the listing.

On another address only who knows the token of the server (sim/serve/access.py) is answered, and no
run starts.

No page has a script or a style that its own text brings along: the policy that goes with it names
the few that squall has, by their digests.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import sha256
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from secrets import token_urlsafe
from socket import gethostname
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from plotly.offline import get_plotlyjs

from squall.sim.campaigns.address import CampaignStoreError
from squall.sim.names import PlotlyFrom
from squall.sim.pictures.coverage import coverage
from squall.sim.pictures.figure_page import figure_page, figure_scripts
from squall.sim.pictures.page import scripts, styles
from squall.sim.pictures.plotly_js import linked, plotly_file
from squall.sim.scenarios.own import read_scenario_file
from squall.sim.scenarios.store import Place, StoreError
from squall.sim.serve.access import REFUSED, Access, is_loopback
from squall.sim.serve.campaign import CampaignView
from squall.sim.serve.html import (
    before,
    before_comparison,
    campaign_page,
    comparison,
    listing,
    problem,
    style,
)
from squall.sim.serve.library import Library
from squall.sim.serve.painter import Painter
from squall.sim.serve.work import ScriptRefused, to_run

ADDRESS = "127.0.0.1"
DEFAULT_PORT = 8321
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
#: where pages are drawn, and look for plotly.js beside them
_DRAWN = ("/run/", "/coverage/", "/campaign/coverage/")
#: bytes of the form that starts a run
_FORM_MOST = 4096


def _policy(styles: Iterable[str], scripts: Iterable[str], place: str = "") -> str:
    """For a page with these styles and scripts alone, which fetches nothing from anywhere but one
    ``place``."""
    style, script = (" ".join(map(_source, texts)) for texts in (styles, scripts))
    script = f"{script} {place}".strip()
    # plotly makes functions of text where it draws with WebGL.
    allowed = f"script-src {script} 'unsafe-eval'; worker-src blob:; " if script else ""
    return (
        f"default-src 'none'; {allowed}style-src {style}; img-src data: blob:; frame-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    )


def _source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def _policy_of_timelines(plotly: PlotlyFrom) -> str:
    return _policy(styles(), scripts(), _place_of(plotly))


@cache
def _policy_of_figures(plotly: PlotlyFrom) -> str:
    return _policy(styles(), figure_scripts(), _place_of(plotly))


def _place_of(plotly: PlotlyFrom) -> str:
    """Where a page may have plotly.js from: this server has no other script."""
    link = linked(plotly)
    if link is None:
        return ""
    return "'self'" if plotly == "file" else link.src


@cache
def _policy_of_the_rest() -> str:
    return _policy([style()], [])


class Handler(BaseHTTPRequestHandler):
    """Answers GET, HEAD and POST."""

    server: Server
    server_version = "squall"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def __getattr__(self, name: str) -> Any:
        # Every other method (PUT, DELETE, what there will be) is refused alike.
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def _refuse(self) -> None:
        self.close_connection = True
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, problem(405, "this page changes nothing"))

    def _answer(self) -> None:
        # Of a request that is refused, what comes with it is not read.
        self.close_connection = self.close_connection or self.command == "POST"
        if self._turned_away():
            return
        url = urlsplit(self.path)
        try:
            if self.command == "POST" and self.server.public:
                self._refuse()
            elif self.command == "POST":
                self._start(unquote(url.path))
            else:
                self._show(unquote(url.path), parse_qs(url.query))
        except ScriptRefused as error:
            self._send(HTTPStatus.FORBIDDEN, problem(403, str(error)))
        except (ValueError, StoreError, CampaignStoreError) as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, problem(500, str(error)))

    def _turned_away(self) -> bool:
        """Whether the request was one that nobody here makes, and was answered with a problem."""
        if self.server.public:
            return self._without_token()
        port = self.server.server_port
        host = self.server.host
        if self.headers.get("Host") not in (f"{host}:{port}", f"localhost:{port}"):
            # Another name for this address is a page elsewhere that tries to read this one.
            self._send(HTTPStatus.FORBIDDEN, problem(403, f"ask for http://{host}:{port}/"))
            return True
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            # A link or an image of a page elsewhere, which is not to start runs here.
            self._send(HTTPStatus.FORBIDDEN, problem(403, "open this page by its own address"))
            return True
        return False

    def _without_token(self) -> bool:
        access, url = self.server.access, urlsplit(self.path)
        if access.known(self.headers.get("Cookie"), self.headers.get("Authorization")):
            return False
        said = parse_qs(url.query).get("token", [""])[0]
        if not access.fits(said):
            self._send(REFUSED[0], problem(REFUSED[0], REFUSED[1]))
        else:  # the address without it is what is seen from now on
            self._go_to(url.path, {"Set-Cookie": access.cookie()})
        return True

    def _show(self, path: str, query: dict[str, list[str]]) -> None:
        """What there is, without a run."""
        library, painter, token = self.server.library, self.server.painter, self.server.token
        if path in {folder + plotly_file() for folder in _DRAWN}:
            self._send_plotly()
        elif path in ("/campaign", "/campaign.json") or path.startswith("/campaign/"):
            self._show_campaign(path)
        elif path == "/":
            folder = str(library.place.folder)
            histories = library.histories()
            campaign = None if self.server.campaign is None else self.server.campaign.name
            listed = listing(library.failures(), library.runs(), histories, folder, token, campaign)
            self._send(HTTPStatus.OK, listed)
        elif path.startswith("/coverage/"):
            kept = library.history(path.removeprefix("/coverage/"))
            if kept is None:
                self._missing(path)
                return
            title, plotly = kept.history.title or kept.name, painter.plotly
            shown = figure_page(coverage(kept.history), title, back="/", plotly=plotly)
            self._send(HTTPStatus.OK, shown, _policy_of_figures(plotly))
        elif path.startswith("/run/"):
            name = path.removeprefix("/run/")
            if (scenario := self._found(name)) is None:
                return
            drawn = painter.kept_page(name, scenario)
            if drawn is not None:
                self._send(HTTPStatus.OK, drawn, _policy_of_timelines(painter.plotly))
                return
            read = read_scenario_file(scenario)
            allowed = painter.scripts or read.own
            refused = None if allowed else str(ScriptRefused(scenario.name))
            failure = next((each for each in library.failures() if each.name == name), None)
            self._send(HTTPStatus.OK, before(name, read.scenario, failure, refused, token))
        elif path == "/compare":
            if (pair := self._pair(query)) is None:
                return
            (one, file), (other, other_file) = pair
            found = painter.kept_comparison(file, other_file)
            if found is None:
                self._send(HTTPStatus.OK, before_comparison(one, other, token))
            else:
                self._send(HTTPStatus.OK, comparison(one, other, found))
        else:
            self._missing(path)

    def _show_campaign(self, path: str) -> None:
        view = self.server.campaign
        if view is None:
            text = "no campaign is shown: start squall serve with --campaign STORE"
            self._send(HTTPStatus.NOT_FOUND, problem(404, text))
        elif path == "/campaign":
            self._send(HTTPStatus.OK, campaign_page(view.status(), self.server.library.failures()))
        elif path == "/campaign.json":
            self._send(HTTPStatus.OK, view.status().to_json(), type="application/json")
        elif (history := view.history(path.removeprefix("/campaign/coverage/"))) is None:
            self._missing(path)
        else:
            plotly = self.server.painter.plotly
            shown = figure_page(coverage(history), history.title, back="/campaign", plotly=plotly)
            self._send(HTTPStatus.OK, shown, _policy_of_figures(plotly))

    def _start(self, path: str) -> None:
        """Run what a form names, and go to where it is shown then."""
        painter, form = self.server.painter, self._form()
        if not compare_digest((form.get("token") or [""])[0].encode(), self.server.token.encode()):
            text = "a run starts by the button of a page of this server; load that page again"
            self._send(HTTPStatus.FORBIDDEN, problem(403, text))
        elif path.startswith("/run/"):
            name = path.removeprefix("/run/")
            if (scenario := self._found(name)) is not None:
                to_run(scenario, painter.scripts)
                painter.page(name, scenario)
                self._go_to(f"/run/{name}")
        elif path == "/compare":
            if (pair := self._pair(form)) is None:
                return
            for _, scenario in pair:
                to_run(scenario, painter.scripts)
            (one, file), (other, other_file) = pair
            painter.compare(file, other_file)
            for name, scenario in pair:
                painter.page(name, scenario)  # the comparison shows both
            self._go_to("/compare?" + urlencode({"a": one, "b": other}))
        else:
            self._missing(path)

    def _form(self) -> dict[str, list[str]]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _FORM_MOST:
            return {}
        return parse_qs(self.rfile.read(int(length)).decode("ascii", "replace"))

    def _pair(self, values: dict[str, list[str]]) -> list[tuple[str, Path]] | None:
        """The two runs that are to be compared; None if that was answered with a problem."""
        names = [(values.get(side) or [""])[0] for side in ("a", "b")]
        if not all(names):
            text = "pick one run in column A and another in column B"
            self._send(HTTPStatus.BAD_REQUEST, problem(400, text))
            return None
        pair = []
        for name in names:
            if (scenario := self._found(name)) is None:
                return None
            pair.append((name, scenario))
        return pair

    def _found(self, name: str) -> Path | None:
        """The file of a run; None if that was answered with a problem."""
        scenario = self.server.library.find(name)
        if scenario is None:
            self._missing(name)
        return scenario

    def _missing(self, name: str) -> None:
        self._send(HTTPStatus.NOT_FOUND, problem(404, f"there is no run {name[:100]!r} here"))

    def _go_to(self, path: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", path)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send_plotly(self) -> None:
        """The file that pages share; a browser asks for it once."""
        data = get_plotlyjs().encode("utf-8")
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/javascript; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in {**_HEADERS, "Cache-Control": "private, max-age=86400"}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _send(
        self,
        status: HTTPStatus,
        body: str,
        policy: str | None = None,
        *,
        type: str = "text/html",
    ) -> None:
        data = body.encode("utf-8")
        self.send_response(status)
        self.send_header("Content-Security-Policy", policy or _policy_of_the_rest())
        self.send_header("Content-Type", f"{type}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = "GET, HEAD" if self.server.public else "GET, HEAD, POST"
            self.send_header("Allow", allowed)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        if self.server.on_request is not None:
            line = format % args
            if self.server.access.token is not None:
                line = line.replace(self.server.access.token, "...")
            self.server.on_request(line)


class Server(ThreadingHTTPServer):
    """The server of a store. ``port`` 0 takes a free one. Raises OSError if it is taken.

    ``scripts``: scenarios run with whatever script they have. ``plotly``: where pages have plotly.js from,
    with "file" from here. ``token``: what its own forms send. ``host``: the address on which it
    listens; where other machines reach it, ``access`` is what they have to know, and nothing runs.
    ``campaign``: what is shown of one.
    """

    daemon_threads = True

    def __init__(
        self,
        place: Place,
        port: int,
        *,
        scripts: bool = False,
        plotly: PlotlyFrom = "inline",
        on_request: Callable[[str], object] | None = None,
        host: str = ADDRESS,
        access: str | None = None,
        campaign: CampaignView | None = None,
    ) -> None:
        self.host, self.public = host, not is_loopback(host)
        if self.public and access is None:
            raise ValueError("a server that other machines can reach has a token")
        self.access = Access(access)
        self.campaign = campaign
        self.library = Library(place)
        self.painter = Painter(scripts=scripts, plotly=plotly)
        self.token = token_urlsafe(16)
        self.on_request = on_request
        try:
            super().__init__((host, port), Handler)
        except BaseException:
            self.painter.close()
            raise

    @property
    def url(self) -> str:
        path = "" if self.campaign is None else "campaign"
        if not self.public:
            return f"http://{self.host}:{self.server_port}/{path}"
        address = str(self.server_address[0])
        named = gethostname() if ip_address(address).is_unspecified else self.host
        return f"http://{named}:{self.server_port}/{path}?token={self.access.token}"

    def server_close(self) -> None:
        super().server_close()
        self.painter.close()
