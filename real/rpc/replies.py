"""Replies that come later, and what they say where there is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from squall.real.future import Future, FutureError, completed, failed
from squall.real.rpc.errors import RpcError

T = TypeVar("T")
S = TypeVar("S")


def then(future: Future[T], fn: Callable[[T], S]) -> Future[S]:
    """A future of ``fn(value)``; ``fn`` runs now if the value is there.

    An error is passed on as text, and its kind with it: it goes into a reply.
    """
    if future.is_done and future.error is None and future.on_devices is None:
        try:
            value = fn(future.raw_value())
        except Exception as failure:
            return failed(RpcError(error_text(failure)), runtime=future._runtime)
        return completed(value, runtime=future._runtime, what=future.what)
    result: Future[S] = Future(runtime=future._runtime, what=future.what, devices=future.devices())

    def run(future: Future[T]) -> None:
        error = future.error
        if error is not None:
            result.try_fail(error)
            return
        try:
            value = fn(future.raw_value())
        except Exception as failure:
            result.try_fail(RpcError(error_text(failure)))
        else:
            result.try_complete(value)

    future.add_callback(run)
    return result


def error_text(error: BaseException) -> str:
    """As torch has it: the bare text of an error of the engine, a Python exception with its type."""
    if type(error) is RuntimeError or isinstance(error, FutureError):
        return str(error)
    return python_error_text(error)


def python_error_text(error: BaseException) -> str:
    if isinstance(error, FutureError):
        return str(error)
    return f"{type(error).__name__}: {error}"
