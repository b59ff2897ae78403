"""Plain data that is checked as it is made, in code as in a file.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Pause(Checked): ...

    Pause(worker=-1, for_s=1.0)      # ValueError: Pause.worker: -1 is wrong: should be …

What a field takes is said once, by its annotation, to pydantic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any, TypeVar, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from squall.model.program.strict_json import MadeError, complaint

T = TypeVar("T")

#: by class: gives the values of its fields, their names, and what takes them
_CHECKS: dict[type, tuple[attrgetter[Any], tuple[str, ...], Any]] = {}
_trusted: ContextVar[bool] = ContextVar("trusted", default=False)


@contextmanager
def trusted() -> Iterator[None]:
    """What is made inside is right: nobody looks at it. For what tests look at."""
    token = _trusted.set(True)
    try:
        yield
    finally:
        _trusted.reset(token)


def is_trusted() -> bool:
    """Whether what is made now is right."""
    return _trusted.get()


class Checked:
    """Base of a dataclass whose fields are checked as it is made. Raises ValueError that names the
    field, its value and what would be right."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_fields(self)


def check_fields(made: Any) -> None:
    """Raises ValueError for the first field of a dataclass that its annotation does not allow."""
    if _trusted.get():
        return
    known = _CHECKS.get(type(made))
    if known is None:
        known = _CHECKS[type(made)] = _check_of(type(made))
    values, names, validate = known
    try:
        validate(dict(zip(names, values(made), strict=True)))
    except ValidationError as error:
        name = type(made).__name__
        raise MadeError(f"{name}{complaint(error, name)}") from None


def check_parts(made: Any) -> None:
    """``check_fields`` of a dataclass and of everything in it: of what ``unchecked`` has changed."""
    if isinstance(made, tuple):
        for each in made:
            check_parts(each)
        return
    if isinstance(made, Checked):
        check_fields(made)
    for field in fields(made) if is_dataclass(made) else ():
        check_parts(getattr(made, field.name))


def _check_of(kind: Any) -> tuple[attrgetter[Any], tuple[str, ...], Any]:
    names = tuple(field.name for field in fields(kind))
    hints = get_type_hints(kind, include_extras=True)
    taken: Any = TypedDict(kind.__name__, {name: hints[name] for name in names})  # type: ignore[misc]
    setattr(taken, "__pydantic_config__", ConfigDict(strict=True, allow_inf_nan=False))  # noqa: B010
    # Of one name alone attrgetter gives the value, not a tuple of it.
    names = (*names, names[0])
    return attrgetter(*names), names, TypeAdapter(taken).validator.validate_python


def unchecked(made: T, **changes: Any) -> T:
    """As ``dataclasses.replace``, without a look at what that makes: for whoever makes many
    candidates and looks at each of them once, when it is complete."""
    copy = object.__new__(type(made))
    for field in fields(made):  # type: ignore[arg-type]
        name = field.name
        object.__setattr__(copy, name, changes[name] if name in changes else getattr(made, name))
    return copy


def plain(made: Any) -> dict[str, Any]:
    """The fields of a dataclass, as a script can have them."""
    return {field.name: getattr(made, field.name) for field in fields(made)}
