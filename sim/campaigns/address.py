"""Where the store of a campaign is: an SQLite file, or a database of a PostgreSQL server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_SQLITE, _POSTGRESQL = "sqlite", "postgresql"
#: what stands for a password
HIDDEN = "***"
_MASKED = re.compile(r"pass", re.IGNORECASE)


class CampaignStoreError(Exception):
    """The store cannot be used: which one, and why."""


class UnusableError(Exception):
    """Why it cannot be used; which one, whoever opens it knows."""


@dataclass(frozen=True)
class Address:
    """``str()`` of it has no password in it. Exactly one of the two is set."""

    file: Path | None = None
    url: URL | None = field(default=None, repr=False)

    @classmethod
    def read(cls, text: str) -> Address:
        """A file, or ``postgresql://user@host/database``. Raises ValueError, whose text has no
        password in it."""
        if "://" not in text:
            return cls(Path(text))
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError

        try:
            url = make_url(text)
        except (ArgumentError, ValueError):
            raise ValueError("expected a file or postgresql://USER@HOST/DATABASE") from None
        name = url.get_backend_name()
        if name == _SQLITE and url.database and not url.host:
            return cls(Path(url.database))
        if name not in (_POSTGRESQL, "postgres"):
            raise ValueError(f"expected a file or postgresql://…, got {url.drivername}://…")
        if not url.database:
            raise ValueError(f"expected the name of a database at the end of {_shown(url)}")
        return cls(url=url.set(drivername=f"{_POSTGRESQL}+psycopg"))

    @property
    def shared(self) -> bool:
        """Whether several drivers write into it at once."""
        return self.url is not None

    def without_passwords(self, text: str) -> str:
        """What somebody else has said of it."""
        for secret in self._secrets():
            text = text.replace(secret, HIDDEN)
        return text

    def _secrets(self) -> list[str]:
        if self.url is None:
            return []
        found = [self.url.password or ""]
        for name, value in self.url.query.items():
            if _MASKED.search(name):
                found += [value] if isinstance(value, str) else value
        return [secret for secret in found if secret]

    def __str__(self) -> str:
        return str(self.file) if self.url is None else _shown(self.url)


def address_of(place: Address | Path) -> Address:
    return place if isinstance(place, Address) else Address(place)


def _shown(url: URL) -> str:
    hidden = {name: HIDDEN for name in url.query if _MASKED.search(name)}
    url = url.set(drivername=_POSTGRESQL, query={**url.query, **hidden})
    return url.render_as_string(hide_password=True)
