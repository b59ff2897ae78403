"""Who may ask a server that other machines can reach: who has its token, in the address or a cookie."""

from __future__ import annotations

from hmac import compare_digest
from http import HTTPStatus
from ipaddress import ip_address

#: the cookie that a browser gets for a token in an address, so that links need not carry it
COOKIE = "squall-token"
#: a token that somebody chooses has so many characters at least
TOKEN_LEAST = 16


def is_loopback(host: str) -> bool:
    """Whether only this machine can ask for pages at an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """``token``: what is asked for; None: nothing is, since only this machine can ask."""

    def __init__(self, token: str | None) -> None:
        self.token = token

    def known(self, cookie: str | None, authorization: str | None) -> bool:
        """Whether a request may be answered, by its cookie or as ``Authorization: Bearer TOKEN``."""
        if self.token is None:
            return True
        scheme, _, said = (authorization or "").partition(" ")
        return (scheme.lower() == "bearer" and self.fits(said)) or self.fits(cookie or "")

    def fits(self, said: str) -> bool:
        return self.token is not None and compare_digest(said.encode(), self.token.encode())


#: what somebody without the token gets
REFUSED = (
    HTTPStatus.FORBIDDEN,
    "this page is for those who have its token: open the address that squall serve has printed",
)
