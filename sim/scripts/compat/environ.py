"""``os.environ`` of one simulated process. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


class Environ(os._Environ):  # type: ignore[type-arg]
    """An ``os.environ`` of one process: it never reaches the real process's environment."""

    def __init__(self, values: Mapping[str, str]) -> None:
        real: Any = os.environ
        encode, decode = real.encodekey, real.decodekey
        data = {encode(key): real.encodevalue(value) for key, value in values.items()}
        super().__init__(data, encode, decode, real.encodevalue, real.decodevalue)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._data[self.encodekey(key)] = self.encodevalue(value)  # type: ignore[attr-defined]

    def __delitem__(self, key: Any) -> None:
        try:
            del self._data[self.encodekey(key)]  # type: ignore[attr-defined]
        except KeyError:
            raise KeyError(key) from None
