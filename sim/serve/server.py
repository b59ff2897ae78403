"""A small page of this machine's own: what the store keeps, run by run, and two side by side.

It listens on 127.0.0.1 only, answers only GET and HEAD, and only requests that name this machine
as their host. Nothing that comes with a request is ever a path: names are looked up in the
listing of the store, and a file that lies (or links) outside of it is not in the listing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from squall.sim.scenarios.store import Kept, Place, Store, StoreError
from squall.sim.serve.html import Entry, comparison, listing, problem
from squall.sim.serve.work import RUN_S

ADDRESS = "127.0.0.1"
DEFAULT_PORT = 8321
#: where runs that did not fail are kept, next to the scenarios of failures
RUNS = "runs"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
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


class Library:
    """What a store holds, by name. Reads only."""

    def __init__(self, place: Place) -> None:
        self.place = Place(place.folder.absolute())

    def entries(self) -> dict[str, tuple[Entry, Path]]:
        """Every scenario with its file, failures first, the latest first. Raises StoreError."""
        kept: dict[str, Kept] = {}
        with Store(self.place, read_only=True) as store:
            for failure in store.failures():
                kept[failure.name] = failure
        found: list[tuple[Entry, Path]] = []
        for folder in (self.place.scenarios, self.place.folder / RUNS):
            for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
                if self._inside(path):
                    found.append((_entry(path, kept.get(path.stem)), path))
        found.sort(key=lambda pair: (not pair[0].failed, -pair[0].found_at, pair[0].name))
        return {entry.name: (entry, path) for entry, path in reversed(found)}

    def find(self, name: str) -> Path | None:
        """The file of a scenario of the listing; None if there is none of that name."""
        if not _NAME.fullmatch(name):
            return None
        found = self.entries().get(name)
        return None if found is None else found[1]

    def _inside(self, path: Path) -> bool:
        root = self.place.folder.resolve()
        try:
            real = path.resolve(strict=True)
        except OSError:
            return False
        return real.is_relative_to(root) and real.is_file() and bool(_NAME.fullmatch(path.stem))


def _entry(path: Path, kept: Kept | None) -> Entry:
    if kept is not None:
        return Entry(
            name=path.stem,
            violated=kept.property or "",
            what=kept.what or "",
            seed=str(kept.seed),
            profile=kept.profile or "",
            workers=str(kept.workers or ""),
            operations=str(kept.operations or ""),
            faults=str(kept.faults),
            found_at=kept.found_at,
            found_by=kept.found_by,
        )
    try:
        plain: Any = json.loads(path.read_text(encoding="utf-8"))
        expected = plain.get("expected") or {}
        seed, profile = str(plain.get("seed", "")), str(plain.get("profile") or "")
        workers = str((plain.get("program") or plain.get("script") or {}).get("workers") or "")
        what, violated = str(expected.get("what") or ""), str(expected.get("property") or "")
    except (OSError, ValueError, AttributeError):
        seed, profile, workers, violated, what = "", "", "", "", "this file cannot be read"
    at = path.stat().st_mtime
    return Entry(path.stem, violated, what, seed, profile, workers, "", "", at, "")


class Painter:
    """Draws pages in processes of their own and keeps them, in a folder that ends with it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="squall-serve-")
        self._locks: dict[tuple[str, ...], threading.Lock] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        self._folder.cleanup()

    def page(self, name: str, scenario: Path) -> bytes:
        """The page of a scenario. Raises ValueError with what went wrong."""
        return self._made(("page", name, _stamp(scenario)), ".html",
                          lambda out: ["page", str(scenario), str(out), name])  # fmt: skip

    def compare(self, one: Path, other: Path) -> dict[str, Any]:
        """Where two runs part, as :mod:`squall.sim.serve.work` says it. Raises ValueError."""
        key = ("compare", _stamp(one), _stamp(other))
        made = self._made(key, ".json", lambda out: ["compare", str(one), str(other), str(out)])
        found: dict[str, Any] = json.loads(made)
        return found

    def _made(self, key: tuple[str, ...], end: str, words: Callable[[Path], list[str]]) -> bytes:
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
            out = Path(self._folder.name) / f"{list(self._locks).index(key)}{end}"
        with lock:
            if not out.exists():
                part = out.with_suffix(".part")
                command = [sys.executable, "-m", "squall.sim.serve.work", *words(part)]
                try:
                    done = subprocess.run(
                        command, capture_output=True, text=True, timeout=4 * RUN_S, check=False,
                        stdin=subprocess.DEVNULL,
                    )  # fmt: skip
                except subprocess.TimeoutExpired:
                    raise ValueError("the run did not end in time") from None
                if done.returncode != 0:
                    last = done.stderr.strip().splitlines()
                    raise ValueError(last[-1] if last else "the run could not be drawn")
                part.rename(out)
            return out.read_bytes()


def _stamp(path: Path) -> str:
    stat = path.stat()
    return f"{path}:{stat.st_mtime_ns}:{stat.st_size}"


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
        url = urlsplit(self.path)
        try:
            self._route(unquote(url.path), parse_qs(url.query))
        except ValueError as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, problem(500, str(error)))
        except StoreError as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, problem(500, str(error)))

    def _route(self, path: str, query: dict[str, list[str]]) -> None:
        library, painter = self.server.library, self.server.painter
        if path == "/":
            entries = [entry for entry, _ in reversed(library.entries().values())]
            self._send(HTTPStatus.OK, listing(entries, str(library.place.folder)))
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

    def _send(self, status: HTTPStatus, body: str | bytes) -> None:
        data = body.encode("utf-8") if isinstance(body, str) else body
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
