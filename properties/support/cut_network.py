"""Connections that go through here, so that a test can cut the network between two programs."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class CutNetwork:
    """What connects to ``port`` of 127.0.0.1 talks to ``to`` there, until it is cut."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._cut = self._deaf = False
        threading.Thread(target=self._accept, daemon=True).start()

    def keep_answers(self) -> None:
        """What is said to ``to`` arrives; what it answers does not, until the network is mended."""
        self._deaf = True

    def cut(self) -> None:
        """Whoever has connected sees its connection end, and gets none any more; the other side
        sees nothing of that, as where a cable is pulled."""
        self._cut = True
        for theirs, _ in self._pairs:
            with suppress(OSError):
                theirs.shutdown(socket.SHUT_RDWR)
            theirs.close()

    def mend(self) -> None:
        """New connections are let through again; those that were cut stay so."""
        self._cut = self._deaf = False

    def close(self) -> None:
        self.cut()
        self._listening.close()
        for _, ours in self._pairs:
            ours.close()

    def _accept(self) -> None:
        while True:
            try:
                theirs, _ = self._listening.accept()
            except OSError:
                return
            if self._cut:
                theirs.close()
                continue
            ours = socket.create_connection(("127.0.0.1", self._to))
            self._pairs.append((theirs, ours))
            for words in ((theirs, ours, False), (ours, theirs, True)):
                threading.Thread(target=self._carry, args=words, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not (answers and self._deaf):
                    target.sendall(data)
        if not self._cut:  # an end in order is told
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)
