"""A small page of this machine's own: what the store keeps, run by run, and two side by side.

It listens on 127.0.0.1 unless told otherwise, and answers only requests that name this machine as
their host, and none that a page from elsewhere makes. GET and HEAD run nothing: they show what has
been drawn. A run starts by a POST, the button of a page, which carries a token that only these pages
know. Nothing that comes with a request is ever a path: names are looked up in the listing of the
store, and a file that lies (or links) outside of it is not in the listing.

On another address only who knows the token of the server (sim/serve/access.py) is answered, and no
run starts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hmac import compare_digest
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from secrets import token_urlsafe
from socket import AF_INET, AF_INET6, create_server, gethostname
from urllib.parse import parse_qs, urlencode

import uvicorn
from plotly.offline import get_plotlyjs
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from squall.sim.campaigns.address import CampaignStoreError
from squall.sim.names import PlotlyFrom
from squall.sim.pictures.coverage import coverage
from squall.sim.pictures.figure_page import figure_page
from squall.sim.pictures.plotly_js import plotly_file
from squall.sim.scenarios.own import read_scenario_file
from squall.sim.scenarios.store import StoreError, StorePlace
from squall.sim.serve.access import COOKIE, REFUSED, Access, is_loopback
from squall.sim.serve.campaign import CampaignView
from squall.sim.serve.html import (
    before,
    before_comparison,
    campaign_page,
    comparison,
    listing,
    problem,
)
from squall.sim.serve.library import Library
from squall.sim.serve.painter import Painter
from squall.sim.serve.policy import of_figures, of_the_rest, of_timelines
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
#: what a browser asks for once
_KEPT = {"Cache-Control": "private, max-age=86400"}
#: bytes of the form that starts a run
_FORM_MOST = 4096


class Page(HTMLResponse):
    """With the policy that goes with it."""

    def __init__(self, text: str, policy: str | None = None, status: int = 200) -> None:
        policy = policy or of_the_rest()
        super().__init__(text, status, {"Content-Security-Policy": policy})


def _problem(status: int, text: str) -> Page:
    return Page(problem(status, text), status=status)


def _missing(name: str) -> HTTPException:
    return HTTPException(HTTPStatus.NOT_FOUND, f"there is no run {name[:100]!r} here")


class Pages:
    """What is answered. Raises HTTPException instead of a page, and what stores and runs raise."""

    def __init__(
        self, library: Library, painter: Painter, campaign: CampaignView | None, token: str
    ) -> None:
        self._library, self._painter, self._campaign = library, painter, campaign
        self._token = token

    def routes(self) -> list[Route]:
        return [
            *(Route(folder + plotly_file(), _plotly) for folder in _DRAWN),
            Route("/", self.kept),
            Route("/campaign", self.campaign),
            Route("/campaign.json", self.campaign_as_json),
            Route("/campaign/coverage/{part:path}", self.campaign_coverage),
            Route("/coverage/{name:path}", self.coverage),
            Route("/run/{name:path}", self.run, methods=["GET"]),
            Route("/run/{name:path}", self.start_run, methods=["POST"]),
            Route("/compare", self.compare, methods=["GET"]),
            Route("/compare", self.start_comparison, methods=["POST"]),
        ]

    # -- what there is, without a run -----------------------------------------------------

    def kept(self, _: Request) -> Response:
        library = self._library
        folder, histories = str(library.place.folder), library.histories()
        campaign = None if self._campaign is None else self._campaign.name
        failures, runs = library.failures(), library.runs()
        return Page(listing(failures, runs, histories, folder, self._token, campaign))

    def coverage(self, request: Request) -> Response:
        kept = self._library.history(name := request.path_params["name"])
        if kept is None:
            raise _missing(name)
        title, plotly = kept.history.title or kept.name, self._painter.plotly
        shown = figure_page(coverage(kept.history), title, back="/", plotly=plotly)
        return Page(shown, of_figures(plotly))

    def run(self, request: Request) -> Response:
        painter, scenario = self._painter, self._found(name := request.path_params["name"])
        drawn = painter.kept_page(name, scenario)
        if drawn is not None:
            return Page(drawn, of_timelines(painter.plotly))
        read = read_scenario_file(scenario)
        refused = None if painter.scripts or read.own else str(ScriptRefused(scenario.name))
        failure = next((each for each in self._library.failures() if each.name == name), None)
        return Page(before(name, read.scenario, failure, refused, self._token))

    def compare(self, request: Request) -> Response:
        (one, file), (other, other_file) = self._pair(request.query_params.get)
        found = self._painter.kept_comparison(file, other_file)
        if found is None:
            return Page(before_comparison(one, other, self._token))
        return Page(comparison(one, other, found))

    def campaign(self, _: Request) -> Response:
        return Page(campaign_page(self._view.status(), self._library.failures()))

    def campaign_as_json(self, _: Request) -> Response:
        return Response(self._view.status().to_json(), media_type="application/json")

    def campaign_coverage(self, request: Request) -> Response:
        history = self._view.history(part := request.path_params["part"])
        if history is None:
            raise _missing(part)
        plotly = self._painter.plotly
        shown = figure_page(coverage(history), history.title, back="/campaign", plotly=plotly)
        return Page(shown, of_figures(plotly))

    # -- runs -----------------------------------------------------------------------------

    async def start_run(self, request: Request) -> Response:
        await self._form(request)
        return await run_in_threadpool(self._run, request.path_params["name"])

    async def start_comparison(self, request: Request) -> Response:
        form = await self._form(request)
        return await run_in_threadpool(self._compare, form)

    def _run(self, name: str) -> Response:
        to_run(scenario := self._found(name), self._painter.scripts)
        self._painter.page(name, scenario)
        return RedirectResponse(f"/run/{name}", HTTPStatus.SEE_OTHER)

    def _compare(self, form: dict[str, str]) -> Response:
        pair = self._pair(form.get)
        for _, scenario in pair:
            to_run(scenario, self._painter.scripts)
        (one, file), (other, other_file) = pair
        self._painter.compare(file, other_file)
        for name, scenario in pair:
            self._painter.page(name, scenario)  # the comparison shows both
        asked = urlencode({"a": one, "b": other})
        return RedirectResponse(f"/compare?{asked}", HTTPStatus.SEE_OTHER)

    async def _form(self, request: Request) -> dict[str, str]:
        """What a button of these pages sends."""
        length, text = request.headers.get("Content-Length", ""), b""
        if length.isdecimal() and int(length) <= _FORM_MOST:
            text = await request.body()
        form = {name: each[0] for name, each in parse_qs(text.decode("ascii", "replace")).items()}
        if not compare_digest(form.get("token", "").encode(), self._token.encode()):
            why = "a run starts by the button of a page of this server; load that page again"
            raise HTTPException(HTTPStatus.FORBIDDEN, why)
        return form

    # -- what is asked for ----------------------------------------------------------------

    @property
    def _view(self) -> CampaignView:
        if self._campaign is None:
            why = "no campaign is shown: start squall serve with --campaign STORE"
            raise HTTPException(HTTPStatus.NOT_FOUND, why)
        return self._campaign

    def _found(self, name: str) -> Path:
        scenario = self._library.find(name)
        if scenario is None:
            raise _missing(name)
        return scenario

    def _pair(self, asked: Callable[[str], str | None]) -> list[tuple[str, Path]]:
        """The two runs that are to be compared."""
        names = [asked(side) or "" for side in ("a", "b")]
        if not all(names):
            why = "pick one run in column A and another in column B"
            raise HTTPException(HTTPStatus.BAD_REQUEST, why)
        return [(name, self._found(name)) for name in names]


def _plotly(_: Request) -> Response:
    return Response(get_plotlyjs(), media_type="text/javascript", headers=_KEPT)


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        known = error.detail != HTTPStatus(error.status_code).phrase
        return _problem(
            error.status_code, error.detail if known else str(_missing(request.url.path).detail)
        )
    code = 403 if isinstance(error, ScriptRefused) else 500
    return _problem(code, str(error))


class Server:
    """The server of a store. ``port`` 0 takes a free one. Raises OSError if it is taken.

    ``scripts``: scenarios run with whatever script they have. ``plotly``: where pages have plotly.js from,
    with "file" from here. ``token``: what its own forms send. ``host``: the address on which it
    listens; where other machines reach it, ``access`` is what they have to know, and nothing runs.
    ``campaign``: what is shown of one.
    """

    def __init__(
        self,
        place: StorePlace,
        port: int,
        *,
        scripts: bool = False,
        plotly: PlotlyFrom = "inline",
        on_request: Callable[[str], object] = lambda line: None,
        host: str = ADDRESS,
        access: str | None = None,
        campaign: CampaignView | None = None,
    ) -> None:
        self._host, self._public = host, not is_loopback(host)
        if self._public and access is None:
            raise ValueError("a server that other machines can reach has a token")
        self._access, self._on_request, self._campaign = Access(access), on_request, campaign
        self.socket = create_server((host, port), family=AF_INET6 if ":" in host else AF_INET)
        self.server_port: int = self.socket.getsockname()[1]
        self.library = Library(place)
        self.painter = Painter(scripts=scripts, plotly=plotly)
        self.token = token_urlsafe(16)
        refusals = dict.fromkeys(
            (HTTPException, ScriptRefused, ValueError, StoreError, CampaignStoreError), _refused
        )
        app = Starlette(
            routes=Pages(self.library, self.painter, campaign, self.token).routes(),
            middleware=[Middleware(BaseHTTPMiddleware, dispatch=self._answer)],
            exception_handlers=refusals,
        )
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=60,
                timeout_graceful_shutdown=1,
            )
        )

    @property
    def url(self) -> str:
        path = "" if self._campaign is None else "campaign"
        if not self._public:
            return f"http://{self._host}:{self.server_port}/{path}"
        address = str(self.socket.getsockname()[0])
        named = gethostname() if ip_address(address).is_unspecified else self._host
        return f"http://{named}:{self.server_port}/{path}?token={self._access.token}"

    def serve_forever(self) -> None:
        """Until :meth:`shutdown`, or Ctrl-C, which raises KeyboardInterrupt."""
        self._server.run(sockets=[self.socket])

    def shutdown(self) -> None:
        """End :meth:`serve_forever`, from another thread."""
        self._server.should_exit = True

    def server_close(self) -> None:
        self.socket.close()
        self.painter.close()

    async def _answer(
        self, request: Request, go_on: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        answer = self._turned_away(request) or await go_on(request)
        for name, value in _HEADERS.items():
            answer.headers.setdefault(name, value)
        asked = f"{request.url.path}?{request.url.query}".rstrip("?")
        line = f'"{request.method} {asked} HTTP/1.1" {answer.status_code}'
        token = self._access.token
        self._on_request(line if token is None else line.replace(token, "..."))
        return answer

    def _turned_away(self, request: Request) -> Response | None:
        """What a request gets that nobody here makes; None for others."""
        allowed = ["GET", "HEAD"] if self._public else ["GET", "HEAD", "POST"]
        if request.method not in allowed:
            answer = _problem(405, "this page changes nothing")
            answer.headers["Allow"] = ", ".join(allowed)
            return answer
        if self._public:
            return self._without_token(request)
        host, port = self._host, self.server_port
        if request.headers.get("Host") not in (f"{host}:{port}", f"localhost:{port}"):
            # Another name for this address is a page elsewhere that tries to read this one.
            return _problem(403, f"ask for http://{host}:{port}/")
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            # A link or an image of a page elsewhere, which is not to start runs here.
            return _problem(403, "open this page by its own address")
        return None

    def _without_token(self, request: Request) -> Response | None:
        access = self._access
        if access.known(request.cookies.get(COOKIE), request.headers.get("Authorization")):
            return None
        if not access.fits(request.query_params.get("token", "")):
            return _problem(*REFUSED)
        # the address without it is what is seen from now on
        answer = RedirectResponse(request.url.path, HTTPStatus.SEE_OTHER)
        answer.set_cookie(COOKIE, access.token or "", httponly=True, samesite="strict")
        return answer
