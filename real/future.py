"""A value that will be there later, with the semantics of PyTorch's futures.

One class serves the engine (``c10::ivalue::Future``, ATen/core/ivalue_inl.h) and the user
(``torch.futures.Future``): completed at most once, callbacks in the order of registration on
the completing task (inline if already complete), a raising callback stops neither the other
callbacks nor the bookkeeping.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from squall.real.device_value import DeviceValue
from squall.real.runtime import Event, Runtime, current_task

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
S = TypeVar("S")
E = TypeVar("E", bound=BaseException)

logger = logging.getLogger(__name__)

#: programs look for "can only be marked completed once"
_COMPLETE = "This future is complete already: a Future can only be marked completed once."


class FutureError(RuntimeError):
    """An error that travelled as text. torch raises RuntimeError; so does this, by descent."""


class plain_errors:  # noqa: N801 - reads as a word of the with statement
    """Turns a :class:`FutureError` of the block into the plain RuntimeError that users know.

    What kind of error it was stands in the text.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if isinstance(exc, FutureError):
            raise RuntimeError(str(exc)) from None


def without_frames(error: E) -> E:
    """A copy of ``error`` that refers to no frame; ``error`` itself if it cannot be copied.

    An exception that is kept would keep the variables of every frame it was raised through, the
    future itself among them: a cycle, in which an RRef would wait for the garbage collector.
    """
    for copy_of in (copy.copy, _copied_bare):
        try:
            copied = copy_of(error)
        except Exception:
            continue
        if type(copied) is type(error):
            return copied
    return error


def _copied_bare(error: E) -> E:
    """A copy of an error whose class is not made from what stands in ``args``."""
    made = type(error)
    copied = made.__new__(made, *error.args)
    copied.__dict__.update(error.__dict__)
    return copied


class Future(Generic[T]):
    """A future value of type ``T``.

    ``what`` describes it in reports of hangs. ``unwrap`` is applied to the value each time a
    user reads it, and may raise: that is how a remote exception, which travels as a value,
    is raised at the caller (torch/csrc/jit/python/pybind_utils.h, PythonFutureWrapper).
    """

    __slots__ = ("__weakref__", "_callbacks", "_open", "_runtime", "_value", "_waiting", "error",
                 "is_done", "on_devices", "unwrap", "what")  # fmt: skip

    def __init__(
        self,
        *,
        runtime: Runtime | None = None,
        what: object = "",
        unwrap: Callable[[Any], Any] | None = None,
        devices: Iterable[object] | None = None,
    ) -> None:
        self._runtime = runtime if runtime is not None else current_task().runtime
        #: whether it is complete; see ``done`` for users
        self.is_done = False
        #: what it failed with, or None
        self.error: BaseException | None = None
        # Popping the only element is atomic between threads too: whoever gets it completes.
        self._open = [True]
        self._value: Any = None
        self._callbacks: list[Callable[[Future[T]], object]] = []
        # An event of its own for each waiting task, let go when set: it refers to the future.
        self._waiting: list[Event] = []
        self.what = what
        self.unwrap = unwrap
        #: when its value is ready on devices that have streams; None: it is on none
        self.on_devices = DeviceValue(devices) if devices else None

    # -- completing ---------------------------------------------------------------------

    def try_complete(self, value: T) -> bool:
        """Complete with a value unless complete already. True if this call did it. A value with tensors
        on devices that it may not be on is a ValueError of whoever asks for it."""
        try:
            self._open.pop()
        except IndexError:
            return False
        if self.on_devices is not None:
            problem = self.on_devices.problem(value)
            if problem is not None:
                self._fail(problem)
                return True
            self.on_devices.record()
        self._value = value
        self.is_done = True
        # Whoever comes from here on sees that it is done.
        if self._waiting or self._callbacks:
            self._tell()
        return True

    def try_fail(self, error: BaseException) -> bool:
        """Complete with an error unless complete already. True if this call did it."""
        try:
            self._open.pop()
        except IndexError:
            return False
        self._fail(error if error.__traceback__ is None else without_frames(error))
        return True

    def _fail(self, error: BaseException) -> None:
        self.error = error
        self.is_done = True
        if self._waiting or self._callbacks:
            self._tell()

    def mark_completed(self, value: T = None) -> None:  # type: ignore[assignment]
        """Complete with a value. Raises RuntimeError if the future is complete."""
        if not self.try_complete(value):
            raise RuntimeError(_COMPLETE)

    def set_error(self, error: BaseException) -> None:
        """Complete with an error. Raises RuntimeError if the future is complete."""
        if not self.try_fail(error):
            raise RuntimeError(_COMPLETE)

    def _tell(self) -> None:
        """Wake who waits and call who asked to be called."""
        # Whoever gave up waiting, or has seen that it is done, may take its own entry out first.
        waiting = self._waiting
        both = bool(waiting and self._callbacks)
        while waiting:
            try:
                event = waiting.pop(0)
            except IndexError:
                pass
            else:
                event.set()
        callbacks = self._callbacks
        if both:
            # torch wakes who waits before it calls back (ATen/core/ivalue_inl.h, markCompleted)
            self._runtime.woke_others()
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:
                pass
            else:
                self._call(callback)

    def _call(self, callback: Callable[[Future[T]], object]) -> None:
        """Call back, on streams of the pool that wait for the value, if it is on devices."""
        try:
            if self.on_devices is None:
                callback(self)
            else:
                with self.on_devices.on_fresh_streams(self._value):
                    callback(self)
        except Exception:
            logger.exception("a callback of %r raised", self)

    # -- looking ------------------------------------------------------------------------

    def done(self) -> bool:
        """For users, who may ask in a loop: asking in vain takes a little time."""
        if not self.is_done:
            self._runtime.poll()  # who asks again and again must not keep others from answering
        return self.is_done

    def devices(self) -> tuple[torch.device, ...]:
        """The devices that the value may be on, of those that have streams."""
        return () if self.on_devices is None else self.on_devices.devices

    def has_error(self) -> bool:
        return self.error is not None

    def raw_value(self) -> T:
        """The value as stored, without ``unwrap``. Raises the error if there is one."""
        if not self.is_done:
            raise RuntimeError("the future is not complete")
        if self.error is not None:
            raise without_frames(self.error)
        value: T = self._value
        return value

    def value(self) -> T:
        """The value. Raises the error, or whatever ``unwrap`` raises; RuntimeError if not done."""
        value = self.raw_value()
        if self.unwrap is None:
            return value
        unwrapped: T = self.unwrap(value)
        return unwrapped

    def wait(self) -> T:
        """Block until complete, then give the value or raise the error."""
        self.block()
        return self.value()

    def block(self, timeout: float | None = None) -> bool:
        """Block until complete; False if ``timeout`` seconds passed first."""
        if self.is_done:
            if self.on_devices is not None:
                self.on_devices.wait(self._value)
            return True
        event = self._runtime.event(self)
        self._waiting.append(event)
        # Another thread may have completed it before it could see the event.
        done = self.is_done or event.wait(timeout)
        if not event.is_set() and event in self._waiting:
            with contextlib.suppress(ValueError):
                self._waiting.remove(event)
        if done and self.on_devices is not None:
            self.on_devices.wait(self._value)
        return done

    # -- chaining -----------------------------------------------------------------------

    def add_callback(self, callback: Callable[[Future[T]], object]) -> None:
        """Call ``callback(self)`` once complete; now, if it already is."""
        done = self.is_done
        if done:
            self._call(callback)
            return
        callbacks = self._callbacks
        callbacks.append(callback)
        if self.is_done:  # completed by another thread meanwhile; list.remove is atomic
            try:
                callbacks.remove(callback)
            except ValueError:
                return
            self.add_callback(callback)

    add_done_callback = add_callback

    def map(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what ``callback(self)`` returns or raises."""
        child: Future[S] = Future(runtime=self._runtime, what=self.what, devices=self.devices())

        def run(parent: Future[T]) -> None:
            try:
                result = callback(parent)
            except Exception as error:
                child.try_fail(error)
            else:
                child.try_complete(result)

        self.add_callback(run)
        return child

    def then_async(self, callback: Callable[[Future[T]], Future[S]]) -> Future[S]:
        """A future of what the future returned by ``callback(self)`` will hold."""
        child: Future[S] = Future(runtime=self._runtime, what=self.what, devices=self.devices())

        def run(parent: Future[T]) -> None:
            try:
                inner = callback(parent)
            except Exception as error:
                child.try_fail(error)
            else:
                inner.add_callback(child.complete_like)

        self.add_callback(run)
        return child

    def complete_like(self, other: Future[T]) -> None:
        """Take over the outcome of a completed future, unless complete already."""
        if other.error is not None:
            self.try_fail(other.error)
            return
        if other.on_devices is not None and self.on_devices is None:
            self.on_devices = DeviceValue(other.devices())
        self.try_complete(other._value)

    # -- torch.futures.Future -----------------------------------------------------------

    def set_result(self, result: T) -> None:
        self.mark_completed(result)

    def set_exception(self, result: BaseException) -> None:
        """Fail the future. Raises AssertionError if ``result`` is no exception, as torch does."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self.set_error(result)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what ``callback(self)`` returns; it fails with torch's text if that raises.

        Raises TypeError if ``callback`` cannot be called.
        """
        if not callable(callback):
            raise TypeError(
                "then(): incompatible function arguments. "
                f"callback must be callable, got {callback!r}"
            )

        def called(future: Future[T]) -> S:
            try:
                return callback(future)
            except Exception as error:
                raise RuntimeError(
                    "Got the following error when running the callback: "
                    f"{type(error).__name__}: {error}"
                ) from None

        return self.map(called)

    def __reduce__(self) -> NoReturn:
        raise RuntimeError("Can not pickle torch.futures.Future")

    def __class_getitem__(cls, item: object) -> Any:
        return cls

    def __repr__(self) -> str:
        state = "failed" if self.error is not None else "done" if self.is_done else "pending"
        return f"<future {state}: {self.what}>" if self.what != "" else f"<future {state}>"


#: what futures that never were open have in the place of lists of their own: nobody adds to it
_NOTHING: list[Any] = []


def completed(value: T, *, runtime: Runtime | None = None, what: object = "") -> Future[T]:
    """A future that holds ``value`` from the beginning."""
    # Future.__init__ and try_complete in one, without lists for those who wait: nobody will.
    future: Future[T] = Future.__new__(Future)
    future._runtime = runtime if runtime is not None else current_task().runtime
    future.is_done = True
    future.error = None
    future._open = future._callbacks = future._waiting = _NOTHING
    future._value = value
    future.what = what
    future.unwrap = None
    future.on_devices = None
    return future


def failed(error: BaseException, *, runtime: Runtime | None = None) -> Future[Any]:
    future: Future[Any] = Future(runtime=runtime)
    future.try_fail(error)
    return future


def collect_all(futures: list[Future[T]]) -> Future[list[Future[T]]]:
    """A future of the list itself, complete once all of them are; it never fails."""
    result: Future[list[Future[T]]] = Future(what="all of a list of futures")
    if not futures:
        result.mark_completed([])
    arrivals = itertools.count(1)  # next() is atomic between threads, += is not

    def one_done(_: Future[T]) -> None:
        if next(arrivals) == len(futures):
            result.try_complete(futures)

    for future in futures:
        future.add_callback(one_done)
    return result


def wait_all(futures: list[Future[T]]) -> list[T]:
    """Wait for all and give their values; raise the first error as soon as it is there.

    First in time: the futures that come after it are not waited for (torch.futures.wait_all).
    """
    ended: Future[Any] = Future(what="all of a list of futures, or one error")

    def one_done(future: Future[T]) -> None:
        try:
            future.value()
        except Exception as error:
            ended.try_fail(error)

    for future in futures:
        future.add_callback(one_done)
    collect_all(futures).add_callback(ended.try_complete)
    ended.wait()
    return [future.value() for future in futures]
