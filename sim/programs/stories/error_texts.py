"""A story about the texts of errors: any characters, in errors of any type, on any way."""

from __future__ import annotations

from typing import Any

from squall.model.program.stories import stories_of
from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.functions import async_execution
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.stories.api import told

label_module(__name__, "texts")
story = stories_of(__name__, rank=114)

_TEXTS = (
    "",
    "planted",
    "two\nlines",
    "a\ttab, a 'quote' and a \"double\" one",
    "C:\\temp\\new",
    "\\u0041 \\x41",
    "naïve, 日本 and 🦆",
    "%s {0} {name}",
)


class UserError(Exception):
    """An error of a user's own."""


class RefusedError(ValueError):
    """One that callers catch as what it is derived from."""


class KindError(TypeError):
    """Another one."""


_TYPES: tuple[type[Exception], ...] = (
    ValueError,
    TypeError,
    RuntimeError,
    LookupError,
    ArithmeticError,
    UserError,
    RefusedError,
    KindError,
    UnicodeError,
)
#: those that keep their type where a call raises them; one derived from it becomes it
_KEPT = (ValueError, TypeError)


def raises(type: int, text: str) -> Any:
    raise _TYPES[type](text)


@async_execution
def raises_at_once(type: int, text: str) -> Future[Any]:
    raise _TYPES[type](text)


def raises_elsewhere(to: int, type: int, text: str) -> Any:
    return rpc.rpc_sync(to, raises, args=(type, text))


def _error_of_call(way: int, to: int, type: int, text: str) -> tuple[str, str]:
    """The name of the type and the text: an error that is kept would keep the frames that it was
    raised through."""
    args = (type, text)
    try:
        if way == 0:
            rpc.rpc_sync(to, raises, args=args)
        elif way == 1:
            rpc.rpc_async(to, raises, args=args).wait()
        elif way == 2:
            rpc.remote(to, raises, args=args).to_here()
        elif way == 3:
            rpc.rpc_sync(to, raises_at_once, args=args)
        else:
            rpc.rpc_sync(to, raises_elsewhere, args=(to, *args))
    except Exception as error:
        return error.__class__.__name__, str(error)
    return "", ""


#: how the error is asked for; the last two are by a reference and by a call within the call
_WAYS, _BY_REFERENCE, _WITHIN = 5, 2, 4


def _read(text: str) -> str:
    """A text as PyTorch reads it, for which what stands behind a backslash counts."""
    return text.encode("utf-8").decode("unicode_escape")


@story(
    "texts of errors",
    numbers={"text": (0, len(_TEXTS) - 1), "type": (0, len(_TYPES) - 1), "way": (0, _WAYS - 1)},
)
def texts_of_errors(to: int, text: int, type: int, way: int) -> str:
    """Of an error that a function raises the caller gets the text with the type and the worker, each
    character as PyTorch reads it, and the type itself where there is one to get."""
    name: str = rpc.get_worker_info(to).name
    made = _TYPES[type](_TEXTS[text])
    raised, said = _error_of_call(way, to, type, _TEXTS[text])
    wanted: Any = next((each for each in _KEPT if isinstance(made, each)), RuntimeError)
    if way == _BY_REFERENCE:
        wanted = made.__class__
    if way == _WITHIN:
        said, times = _read(said), 2
    else:
        times = 1
    shown = repr(made)
    for _ in range(times):
        shown = _read(shown)
    return told(
        of_its_type=raised == wanted.__name__,
        with_its_text=way == _WITHIN or shown in said,
        from_its_worker=name in said,
    )
