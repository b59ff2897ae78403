"""Random streams named by what they decide.

Every choice draws from a stream of its own name (``seed / link 0->2 / message 5 / latency``), so
that taking one message out of a scenario leaves all other choices as they were.
"""

from __future__ import annotations

import random
import struct
from hashlib import blake2b
from typing import Any

from squall.sim.world.watch import Watcher, current

_WORDS = struct.Struct("<8Q")
_SCALE = 2.0**-53


class NamedStream(random.Random):
    """A generator that is cheap to point at another name.

    Seeding Python's own generator costs more than a whole message may; this one hashes the
    name and a counter instead (BLAKE2b, eight draws a block).
    """

    def __new__(cls, seed: int) -> NamedStream:
        return super().__new__(_WatchedStream if current() is not None else cls)

    def __init__(self, seed: int) -> None:
        self._seed = repr(seed).encode()
        self._key = b""
        self._block = 0
        self._words: list[int] = []

    def seed(self, seed: Any = None, version: int = 2) -> None:
        """Draw from another seed from here on."""
        self._seed = repr(seed).encode()
        self._words = []

    def named(self, name: bytes) -> NamedStream:
        """This stream, at its first draw under ``name``."""
        self._key = name
        self._block = 0
        self._words = []
        return self

    def _next_word(self) -> int:
        words = self._words
        if not words:
            text = b"%s/%s/%d" % (self._seed, self._key, self._block)
            words.extend(_WORDS.unpack(blake2b(text, digest_size=64).digest()))
            words.reverse()
            self._block += 1
        return words.pop()

    def random(self) -> float:
        return (self._next_word() >> 11) * _SCALE

    def getrandbits(self, k: int, /) -> int:
        value = 0
        for _ in range((k + 63) // 64):
            value = value << 64 | self._next_word()
        return value >> (-k % 64)


class _WatchedStream(NamedStream):
    """The same numbers, shown to whoever watches."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._watcher = current()
        if self._watcher is not None:
            self._watcher.stream(self)

    def random(self) -> float:
        value = super().random()
        if self._watcher is not None:
            self._watcher.draw(self._key, value)
        return value

    def getrandbits(self, k: int, /) -> int:
        value = super().getrandbits(k)
        if self._watcher is not None:
            self._watcher.draw(self._key, value)
        return value


class WatchedRandom(random.Random):
    """Python's own generator, seeded by a name, whose numbers are shown to whoever watches."""

    def __new__(cls, seed: str, watcher: Watcher) -> WatchedRandom:
        return super().__new__(cls)

    def __init__(self, seed: str, watcher: Watcher) -> None:
        self._name = seed
        self._watcher: Watcher | None = None
        super().__init__(seed)
        self._watcher = watcher
        watcher.stream(self)

    # Both, or Python would draw integers in another way than it does without these.

    def random(self) -> float:
        value = super().random()
        if self._watcher is not None:
            self._watcher.draw(self._name, value)
        return value

    def getrandbits(self, k: int, /) -> int:
        value = super().getrandbits(k)
        if self._watcher is not None:
            self._watcher.draw(self._name, value)
        return value
