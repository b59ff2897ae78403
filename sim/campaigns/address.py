"""Where the store of a campaign is: an SQLite file, or a database of a PostgreSQL server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

#: what stands for a password
HIDDEN = "***"
_MASKED = re.compile(r"pass", re.IGNORECASE)


class CampaignStoreError(Exception):
    """The store cannot be used: which one, and why."""


class UnusableError(Exception):
    """Why it cannot be used; which one, whoever opens it knows."""


@dataclass(frozen=True)
class Address:
    """``str()`` of it has no password in it. Exactly one of the two is set; ``url`` is one of libpq's."""

    file: Path | None = None
    url: str | None = field(default=None, repr=False)

    @classmethod
    def read(cls, text: str) -> Address:
        """A file, or ``postgresql://user@host/database``. Raises ValueError, whose text has no
        password in it."""
        if "://" not in text:
            return cls(Path(text))
        try:
            url = urlsplit(text)
            url.port  # noqa: B018  raises ValueError for what is no number
        except ValueError:
            url = urlsplit("")
        if not url.scheme:
            raise ValueError("expected a file or postgresql://USER@HOST/DATABASE")
        name = url.scheme.partition("+")[0]
        if name == "sqlite" and url.path[1:] and not url.netloc:
            return cls(Path(url.path[1:]))
        if name not in ("postgresql", "postgres"):
            raise ValueError(f"expected a file or postgresql://…, got {url.scheme}://…")
        url = url._replace(scheme="postgresql")
        if not url.path[1:]:
            raise ValueError(
                f"expected the name of a database at the end of {_shown(url.geturl())}"
            )
        return cls(url=url.geturl())

    @property
    def shared(self) -> bool:
        """Whether several drivers write into it at once."""
        return self.url is not None

    def without_passwords(self, text: str) -> str:
        """What somebody else has said of it."""
        if self.url is not None:
            url = urlsplit(self.url)
            secrets = [url.password or "", unquote(url.password or "")]
            secrets += [value for name, value in parse_qsl(url.query) if _MASKED.search(name)]
            for secret in filter(None, secrets):
                text = text.replace(secret, HIDDEN)
        return text

    def __str__(self) -> str:
        return str(self.file) if self.url is None else _shown(self.url)


def address_of(place: Address | Path) -> Address:
    return place if isinstance(place, Address) else Address(place)


def _shown(text: str) -> str:
    url = urlsplit(text)
    user, at, host = url.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    query = [(name, HIDDEN if _MASKED.search(name) else v) for name, v in parse_qsl(url.query)]
    netloc = f"{name}{colon}{HIDDEN if colon else ''}{at}{host}"
    return urlunsplit(url._replace(netloc=netloc, query=urlencode(query)))
