"""Errors of calls, with torch's kinds (torch/csrc/distributed/rpc/utils.h: RPCErrorType)."""

from __future__ import annotations

import re
from enum import IntEnum

from squall.real.future import FutureError


class RpcErrorKind(IntEnum):
    UNKNOWN = 0
    TIMEOUT = 1
    INTENTIONAL = 2


class RpcError(FutureError):
    """A call failed. The text carries the kind in a prefix ``RPCErr:<kind>:``, as in torch."""


_PREFIX = re.compile(r"RPCErr:(\d+):")


def make_rpc_error(text: str, kind: RpcErrorKind) -> RpcError:
    return RpcError(f"RPCErr:{int(kind)}:{text}")


def rpc_error_kind(error: BaseException) -> RpcErrorKind:
    """The kind that an error's text carries; UNKNOWN for a text without the prefix."""
    match = _PREFIX.match(str(error))
    if match is None:
        return RpcErrorKind.UNKNOWN
    try:
        return RpcErrorKind(int(match.group(1)))
    except ValueError:
        return RpcErrorKind.UNKNOWN


def timeout_error(timeout_s: float) -> RpcError:
    milliseconds = int(timeout_s * 1000)
    return make_rpc_error(
        f"RPC ran for more than set timeout ({milliseconds} ms) and will now be marked "
        "with an error",
        RpcErrorKind.TIMEOUT,
    )
