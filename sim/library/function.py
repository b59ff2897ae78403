"""A function as a script: what makes the ranks of a run call it.

The script names the function, or holds it, with its arguments (sim/library/pickled_functions.py). So a run of a
function is a run of a script to everything else: to engines, faults, shrinking, and files.
"""

from __future__ import annotations

import ast
import base64
import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from squall.sim.library.assert_rewriting import REWRITTEN
from squall.sim.library.pickled_functions import MAIN, carried, named, or_shared
from squall.sim.library.rank import MARK, Asked
from squall.sim.scenario import Script
from squall.sim.scripts.compat.program import belongs_to_python

_TEXT = """\
# Written by squall: each rank calls {function}.
import importlib
import sys

from squall.sim.library.rank import call

sys.path[:0] = [place for place in {places!r} if place not in sys.path]
call(
    importlib.import_module,
    globals(),
{asked})
"""


def script_of(
    function: Callable[..., object],
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    workers: int,
    check: bool = True,
    join: str | None = None,
) -> Script:
    """The script in which each of ``workers`` ranks calls ``function(rank, *args, **kwargs)``.

    ``join``: see :class:`~squall.sim.library.rank.Asked`. Raises TypeError for what cannot be
    called, with these arguments or at all.
    """
    if not callable(function):
        raise TypeError(
            f"function is {type(function).__name__}, expected a function, or the path of a script"
        )
    options = dict(kwargs or {})
    positional = tuple(args)
    while isinstance(function, functools.partial):
        positional = (*function.args, *positional)
        options = {**function.keywords, **options}
        function = function.func
    function = getattr(function, MARK, function)
    name = _name(function)
    positional = tuple(or_shared(value) for value in positional)
    options = {key: or_shared(value) for key, value in options.items()}
    _check_arguments(function, name, positional, options)
    data = carried((function if name is None else None, positional, options))
    module = _module_of(function)
    root, file = _place(module)
    rewritten = REWRITTEN in vars(sys.modules.get(module, sys))
    asked = Asked(
        function=name,
        carried=base64.b85encode(data).decode(),
        module=module,
        file=file if rewritten or not _is_found(module, file, root) else None,
        rewritten=rewritten,
        join=join,
    )
    told = name or f"{module}:{getattr(function, '__qualname__', type(function).__qualname__)}"
    text = _TEXT.format(
        function=told,
        places=[str(root), *_search_path()],
        asked="".join(f"    {key}={value!r},\n" for key, value in asked._asdict().items()),
    )
    path = str(root / told.replace("/", "."))
    # Each rank is a process of its own from the start.
    return Script(path=path, text=text, args=("{rank}",), workers=workers, check=check)


def asked_of(script: Script) -> Asked | None:
    """What each rank calls, if squall has written the script for a function."""
    if ":" not in Path(script.path).name:
        return None
    (call,) = (
        node.value
        for node in ast.parse(script.text).body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and node.value.keywords
    )
    return Asked(**{each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg})


def _check_arguments(
    function: Any, name: str | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Raises TypeError if the function does not take what each rank calls it with."""
    try:
        # What a decorator passes on is its own affair.
        signature = inspect.signature(function, follow_wrapped=False)
    except ValueError:  # of some functions in C nobody knows
        return
    first = next(iter(signature.parameters), "")
    # A method that is found by its name gets an instance in each rank.
    own = (None,) if name is not None and "." in name.partition(":")[2] and first == "self" else ()
    try:
        signature.bind(*own, 0, *args, **kwargs)
    except TypeError as error:
        shown = getattr(function, "__name__", type(function).__name__)
        given = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
        raise TypeError(
            f"function is {shown}{signature}, and each rank would call "
            f"{shown}({', '.join(['rank', *given])}): {error}"
        ) from None


def _module_of(function: Any) -> str:
    inner = getattr(function, "__func__", function)
    module = getattr(inner, "__globals__", {}).get("__name__") or type(function).__module__
    return str(module)


def _name(function: Any) -> str | None:
    """``module:qualname`` if a rank can find the function by it; what squall's decorators have made
    of a function leads to it."""
    owner = None
    if isinstance(function, MethodType):
        owner, function = type(function.__self__), function.__func__
    module = _module_of(function)
    if not isinstance(function, FunctionType) or module == MAIN or module not in sys.modules:
        return None
    qualname = function.__qualname__
    if owner is not None:
        qualname = f"{owner.__qualname__}.{function.__name__}"
    try:
        found = named(module, qualname, sys.modules.__getitem__)
    except AttributeError:
        return None
    if getattr(found, MARK, found) is not function:
        return None
    return f"{module}:{qualname}"


def _place(module: str) -> tuple[Path, str | None]:
    """The folder that the module is imported from, and its file."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == MAIN or file is None or not str(file).endswith(".py"):
        return Path.cwd(), None
    path = Path(os.path.abspath(file))
    depth = module.count(".") + (path.name == "__init__.py")
    return path.parents[min(depth, len(path.parents) - 1)], str(path)


def _is_found(module: str, file: str | None, root: Path) -> bool:
    """Whether an import by name from ``root`` finds the file."""
    if file is None:
        return True
    path = root.joinpath(*module.split("."))
    return file in (f"{path}.py", str(path / "__init__.py"))


def _search_path() -> list[str]:
    """Where modules of the caller's own are looked for."""
    places = [os.path.abspath(entry) for entry in sys.path]
    return [place for place in dict.fromkeys(places) if not belongs_to_python(place)]
