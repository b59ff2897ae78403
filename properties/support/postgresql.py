"""A PostgreSQL server of the tests' own: from Debian's packages, in a folder of its own."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from squall.properties.support.waiting import wait_for

#: where Debian has the programs of its servers, each version in a folder
_DEBIAN = Path("/usr/lib/postgresql")
#: whom the server runs as if we are root, which it refuses
_USER = "postgres"


def missing() -> str | None:
    """Why there can be no server here, if so."""
    if _programs() is None:
        return "no PostgreSQL server is installed: apt-get install postgresql"
    if os.getuid() == 0:
        try:
            pwd.getpwnam(_USER)
        except KeyError:
            return f"a PostgreSQL server does not run as root, and there is no user {_USER}"
    return None


class Server:
    """A server whose databases order texts as readers of English do, and which asks for a password.

    It listens at ``port`` of 127.0.0.1 alone. ``password``: that of its user.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._data, self._log = folder, folder / "data", folder / "log"
        self.password = f"{secrets.token_hex(8)}@:/%'"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        secret = folder / "password"
        secret.write_text(self.password, encoding="utf-8")
        if os.getuid() == 0:
            for path in (folder, secret):
                shutil.chown(path, _USER, _USER)
        options = ("--auth=scram-sha-256", f"--pwfile={secret}", f"--username={_USER}")
        sort = ("--encoding=UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en")
        made = self._run("initdb", "-D", str(self._data), "--no-sync", *options, *sort)
        assert made.wait() == 0, self._log.read_text(encoding="utf-8")

    def start(self) -> None:
        """Returns once it answers."""
        options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self._folder),
            "port": self.port,
            "fsync": "off",  # no test takes the power away
            "max_connections": 30,
        }
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]

        def answers() -> bool:
            if self._process is None or self._process.poll() is not None:
                # what an earlier one has left behind may hinder it for a moment
                self._process = self._run("postgres", "-D", str(self._data), *words)
            with suppress(Exception):
                return bool(self.execute("postgres", "SELECT 1"))
            return False

        wait_for(answers, "a PostgreSQL server that answers")

    def kill(self) -> None:
        """End it as a crash does: nothing is finished, nobody is told. Its processes see to
        themselves."""
        self._stop(signal.SIGKILL)

    def stop(self) -> None:
        """End it at once, in order."""
        self._stop(signal.SIGINT)

    def url(self, database: str) -> str:
        """With the password in it."""
        return (
            f"postgresql://{_USER}:{quote(self.password, safe='')}@127.0.0.1:{self.port}/{database}"
        )

    def create(self, database: str) -> str:
        """A new database, and its address."""
        self.execute("postgres", f"CREATE DATABASE {database}")
        return self.url(database)

    def execute(self, database: str, command: str) -> list[tuple[object, ...]]:
        """The rows that an SQL command returns, outside of any transaction."""
        import psycopg  # where there is no server there may be no library for it

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            found = connection.execute(command.encode())
            return [] if found.description is None else found.fetchall()

    def _stop(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait()
        self._process = None

    def _run(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        programs = _programs()
        assert programs is not None
        owner = _USER if os.getuid() == 0 else None
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [programs / program, *words],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=owner,
                group=owner,
                extra_groups=None if owner is None else [],
            )


@contextmanager
def running_server() -> Iterator[Server]:
    """In a folder that its user may enter, which the temporary folders of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix="squall-postgresql-"))
    server = None
    try:
        server = Server(folder)
        server.start()
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """The folder of the newest version."""
    found = [path for path in _DEBIAN.glob("*/bin") if (path / "postgres").exists()]
    on_path = shutil.which("postgres")
    if on_path is not None:
        found.append(Path(on_path).resolve().parent)
    return max(found, key=lambda path: (_version(path), str(path)), default=None)


def _version(programs: Path) -> float:
    with suppress(ValueError):
        return float(programs.parent.name)
    return 0.0
