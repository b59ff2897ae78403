"""Marking functions for the callee (torch/distributed/rpc/functions.py)."""

from __future__ import annotations

import functools
from typing import Any


def async_execution(fn: Any) -> Any:
    """Mark ``fn`` as one that returns a future: the callee answers when that completes.

    The function that is passed to the RPC API must carry the mark, so this is the inner
    decorator beside ``staticmethod`` and ``classmethod`` and the outer one beside
    ``torch.jit.script``.
    """

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    wrapper._wrapped_async_rpc_function = fn  # type: ignore[attr-defined]
    return wrapper
