"""What each rank does that calls a function: the script that ``squall.run`` writes leads here.

All code that a rank runs is imported by the rank: whatever it takes from ``torch.distributed.rpc`` or
``time`` is then what a simulated process gets.
"""

from __future__ import annotations

import base64
import importlib.util
import inspect
import sys
import unittest
from contextlib import suppress
from functools import lru_cache
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from squall.sim.library.assert_rewriting import rewritten_code, source_code
from squall.sim.library.pickled_functions import ImportModule, named, opened
from squall.sim.library.results import packed
from squall.sim.scripts.returned import give_back
from squall.sim.world.places import tells

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace

#: seconds of virtual time that a rank waits for the others to leave their group
_LEAVE_S = 500
#: attribute of what a decorator of squall's has made of a function: the function
MARK = "__squall_function__"


class Asked(NamedTuple):
    """What a rank is asked to call.

    ``function`` is ``"module:qualified.name"``, or None if it comes with ``carried``. ``carried`` has
    (function or None, args, kwargs), in base 85. ``file`` is that of the function's module, if it
    is to be executed from there; ``rewritten``: with the assertions of pytest. ``join``: the name under which
    the rank joins a group first, with ``{rank}`` in it; None leaves that to the function.
    """

    function: str | None
    carried: str
    module: str
    file: str | None = None
    rewritten: bool = False
    join: str | None = None


def call(import_module: ImportModule, main: dict[str, Any], **asked: Any) -> None:
    """Call the function as this rank, and give its result back.

    ``import_module`` is the process's own, ``main`` the dictionary of its main module. Raises what
    the function raises.
    """
    what = Asked(**asked)
    del sys.argv[1:]  # the rank, which is none of the function's words
    # What the script has named for itself is none of the function's, which may have its own ``call`` or ``sys``.
    for name in [name for name in main if not name.startswith("__")]:
        del main[name]
    #: the simulated process's modules; None in a process of its own
    space: ModuleSpace | None = getattr(import_module, "__self__", None)
    environ = import_module("os").environ
    rank, size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    _load(what, import_module, space)
    carried, args, kwargs = opened(_decoded(what.carried), import_module, main)
    function = carried if what.function is None else _function(what.function, import_module)
    rpc: Any = None if what.join is None else import_module("torch.distributed.rpc")
    if what.join is not None:
        _join(rpc, what.join.format(rank=rank), rank, size)
    result = function(rank, *args, **kwargs)
    if rpc is not None:
        _leave(rpc)
    give_back(packed(result, space))


#: the same text for all ranks, and for runs again
_decoded = lru_cache(maxsize=4)(base64.b85decode)


def _join(rpc: Any, name: str, rank: int, size: int) -> None:
    rpc.init_rpc(name, rank=rank, world_size=size)


def _leave(rpc: Any) -> None:
    """Leave the group when all others do; without them if they do not come: a fault may have ended
    one, and who waits for ever says so itself."""
    with suppress(RuntimeError):
        rpc.shutdown(timeout=_LEAVE_S)


@tells
def _at_the_ends(frame: FrameType, called: FrameType | None) -> str | None:
    """Where a rank is before and after its function."""
    words = {_join.__code__: "joining its group", _leave.__code__: "leaving its group"}
    return words.get(frame.f_code)


def _function(where: str, import_module: ImportModule) -> Any:
    """The function itself; of a method, bound to an instance that is set up."""
    module, _, qualname = where.partition(":")
    found = named(module, qualname, import_module)
    function = getattr(found, MARK, found)
    owner, _, name = qualname.rpartition(".")
    parameters = iter(inspect.signature(function).parameters)
    if not owner or next(parameters, "") != "self":
        return function
    cls = named(module, owner, import_module)

    def method(*args: Any, **kwargs: Any) -> Any:
        instance = cls(name) if issubclass(cls, unittest.TestCase) else cls()
        for set_up in ("setUp", "setup_method"):
            if hasattr(instance, set_up):
                getattr(instance, set_up)()
        result = function(instance, *args, **kwargs)
        for tear_down in ("tearDown", "teardown_method", "doCleanups"):
            if hasattr(instance, tear_down):
                getattr(instance, tear_down)()
        return result

    return method


def _load(what: Asked, import_module: ImportModule, space: ModuleSpace | None) -> None:
    """Execute the function's module from that file, where an import by its name would not do."""
    if what.file is None:
        return
    parent = what.module.rpartition(".")[0]
    if parent:
        import_module(parent)
    spec = importlib.util.spec_from_file_location(what.module, what.file)
    assert spec is not None, "it is a file with Python source"
    code = rewritten_code(what.file) if what.rewritten else source_code(what.file)
    if space is not None:
        space.execute(what.module, spec, code)
        return
    module = sys.modules[what.module] = importlib.util.module_from_spec(spec)
    exec(code, module.__dict__)
