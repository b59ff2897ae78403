"""A small page of this machine's own: what the store keeps, run by run, and two side by side.

It listens on 127.0.0.1 only, answers only GET and HEAD, and only requests that name this machine
as their host, and none that a page from elsewhere makes. Nothing that comes with a request is ever a path: names are looked up in the
listing of the store, and a file that lies (or links) outside of it is not in the listing.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from squall.sim.scenarios.store import Place, StoreError
from squall.sim.serve.html import comparison, listing, problem
from squall.sim.serve.library import Library
from squall.sim.serve.painter import Painter

ADDRESS = "127.0.0.1"
DEFAULT_PORT = 8321
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    # Pages draw with what they bring along, and fetch nothing from anywhere.
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'unsafe-inline'; img-src data: blob:; frame-src 'self'; worker-src blob:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'self'",
}


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    server: Server
    server_version = "squall"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def __getattr__(self, name: str) -> Any:
        # Every other method (POST, PUT, DELETE, what there will be) is refused alike.
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def _refuse(self) -> None:
        self.close_connection = True
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, problem(405, "this page changes nothing"))

    def _answer(self) -> None:
        port = self.server.server_port
        if self.headers.get("Host") not in (f"{ADDRESS}:{port}", f"localhost:{port}"):
            # Another name for this address is a page elsewhere that tries to read this one.
            self._send(HTTPStatus.FORBIDDEN, problem(403, f"ask for http://{ADDRESS}:{port}/"))
            return
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            # A link or an image of a page elsewhere, which is not to start runs here.
            self._send(HTTPStatus.FORBIDDEN, problem(403, "open this page by its own address"))
            return
        url = urlsplit(self.path)
        try:
            self._route(unquote(url.path), parse_qs(url.query))
        except (ValueError, StoreError) as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, problem(500, str(error)))

    def _route(self, path: str, query: dict[str, list[str]]) -> None:
        library, painter = self.server.library, self.server.painter
        if path == "/":
            page = listing(library.failures(), library.runs(), str(library.place.folder))
            self._send(HTTPStatus.OK, page)
        elif path.startswith("/run/"):
            name = path.removeprefix("/run/")
            scenario = library.find(name)
            if scenario is None:
                self._missing(name)
                return
            self._send(HTTPStatus.OK, painter.page(name, scenario))
        elif path == "/compare":
            one, other = ((query.get(side) or [""])[0] for side in ("a", "b"))
            if not one or not other:
                text = "pick one run in column A and another in column B"
                self._send(HTTPStatus.BAD_REQUEST, problem(400, text))
                return
            files = (library.find(one), library.find(other))
            if files[0] is None or files[1] is None:
                self._missing(one if files[0] is None else other)
                return
            found = painter.compare(files[0], files[1])
            self._send(HTTPStatus.OK, comparison(one, other, found))
        else:
            self._missing(path)

    def _missing(self, name: str) -> None:
        self._send(HTTPStatus.NOT_FOUND, problem(404, f"there is no run {name[:100]!r} here"))

    def _send(self, status: HTTPStatus, body: str) -> None:
        data = body.encode("utf-8")
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        if self.server.on_request is not None:
            self.server.on_request(format % args)


class Server(ThreadingHTTPServer):
    """The server of a store. ``port`` 0 takes a free one. Raises OSError if it is taken."""

    daemon_threads = True

    def __init__(
        self, place: Place, port: int, *, on_request: Callable[[str], object] | None = None
    ) -> None:
        self.library = Library(place)
        self.painter = Painter()
        self.on_request = on_request
        try:
            super().__init__((ADDRESS, port), Handler)
        except BaseException:
            self.painter.close()
            raise

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"

    def server_close(self) -> None:
        super().server_close()
        self.painter.close()
