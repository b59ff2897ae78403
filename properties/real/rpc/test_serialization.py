"""What crosses the wire, and what of it is the receiver's own."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import pickle
import types
from typing import Any

import pytest
import torch

from squall.real.rpc.serialization import (
    PythonUDF,
    RemoteException,
    deserialize,
    handle_exception,
    run_function,
    serialize,
)
from squall.real.rpc.state import rpc_state
from squall.real.rpc.transport import QueueWorld
from squall.real.runtime import run_as
from squall.real.threads import ThreadRuntime
from squall.real.worker import Worker

USER_CODE = """
import collections, dataclasses, enum, functools

class Colour(enum.Enum):
    RED = 1

Point = collections.namedtuple("Point", "x y")

@dataclasses.dataclass
class Box:
    size: int
    class Lid:
        pass

class Sentinel:
    def __reduce__(self):
        return "MISSING"

MISSING = Sentinel()

def double(x):
    return 2 * x

@functools.lru_cache
def cached(x):
    return x

class Oops(Exception):
    pass

def local():
    return lambda: 0

anonymous = lambda: 0
"""


class OwnModules:
    """A private copy of ``user`` for one worker."""

    def __init__(self) -> None:
        self.module = types.ModuleType("user")
        self.module.__dict__["__name__"] = "user"
        exec(compile(USER_CODE, "user.py", "exec", dont_inherit=True), self.module.__dict__)

    def owns(self, module: str) -> bool:
        return module == "user"

    def find(self, module: str, qualname: str) -> Any:
        found: Any = self.module
        for name in qualname.split("."):
            found = getattr(found, name)
        return found


@pytest.fixture
def runtime():
    runtime = ThreadRuntime()
    yield runtime
    runtime.close()


@pytest.fixture
def worker(runtime):
    return Worker(runtime, QueueWorld(runtime))


@pytest.fixture
def two_processes(runtime):
    world = QueueWorld(runtime)
    return [Worker(runtime, world, modules=OwnModules()) for _ in range(2)]


def there(sender, receiver, obj):
    return deserialize(receiver, *serialize(sender, obj))


def test_tensors_travel_beside_the_bytes_each_once(worker):
    x, y = torch.ones(3), torch.zeros(2, requires_grad=True)
    payload, tensors = serialize(worker, {"a": x, "b": [y, x]})
    assert [t is s for t, s in zip(tensors, [x, y], strict=True)] == [True, True]
    back = deserialize(worker, payload, tensors)
    assert back["a"] is x and back["b"][0] is y and back["b"][1] is x


def test_a_parameter_stays_a_parameter_and_its_data_travels_beside(worker):
    parameter = torch.nn.Parameter(torch.ones(2))
    payload, tensors = serialize(worker, parameter)
    assert len(tensors) == 1 and not tensors[0].requires_grad
    back = deserialize(worker, payload, tensors)
    assert type(back) is torch.nn.Parameter and back.requires_grad
    assert torch.equal(back, parameter)


def test_a_module_keeps_its_parameters(worker):
    model = torch.nn.Linear(2, 3)
    payload, tensors = serialize(worker, model)
    assert len(tensors) == 2
    assert torch.equal(deserialize(worker, payload, tensors).weight, model.weight)


def test_a_call_comes_back_as_a_call(worker):
    udf = there(worker, worker, PythonUDF(torch.mm, (torch.ones(1),), {"k": 1}))
    assert type(udf) is PythonUDF and udf.func is torch.mm and udf.kwargs == {"k": 1}


def test_user_things_arrive_as_the_receivers_own(two_processes):
    here, other = two_processes
    mine, theirs = here.modules.module, other.modules.module
    assert mine.double is not theirs.double
    assert there(here, other, mine.double) is theirs.double
    assert there(here, other, mine.Box.Lid) is theirs.Box.Lid
    assert there(here, other, mine.Colour.RED) is theirs.Colour.RED
    assert there(here, other, mine.MISSING) is theirs.MISSING
    assert there(here, other, mine.cached) is theirs.cached
    assert type(there(here, other, mine.Point(1, 2))) is theirs.Point
    assert there(here, other, mine.Box(3)) == theirs.Box(3)
    partial = there(here, other, functools.partial(mine.double, 4))
    assert partial.func is theirs.double and partial() == 8
    error = there(here, other, RemoteException("text", mine.Oops))
    assert error.exception_type is theirs.Oops


def test_what_has_no_name_cannot_travel_and_pickle_says_why(two_processes):
    here, _ = two_processes
    user = here.modules.module
    with pytest.raises(
        AttributeError, match=r"Can't (pickle|get) local object 'local.<locals>.<lambda>'"
    ):
        serialize(here, user.local())
    with pytest.raises(pickle.PicklingError, match="attribute lookup <lambda> on user failed"):
        serialize(here, user.anonymous)
    kept, user.double = user.double, None
    with pytest.raises(pickle.PicklingError, match=r"it's not the same object as user.double"):
        serialize(here, kept)


def test_a_name_that_the_callee_lacks_is_raised_by_the_call(two_processes, capsys):
    here, other = two_processes
    call = serialize(here, PythonUDF(here.modules.module.double, (1,), {}))
    value = serialize(here, here.modules.module.double)
    del other.modules.module.double
    udf = deserialize(other, *call)
    with run_as(other.task()):
        outcome = run_function(other, udf)
    assert outcome.exception_type is AttributeError
    assert "Default RPC pickler does not serialize" in outcome.msg
    assert outcome.msg in capsys.readouterr().err
    with pytest.raises(AttributeError, match="Default RPC pickler does not serialize"):
        deserialize(other, *value)


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_torchscript_travels_by_name_or_as_a_file(worker):
    assert there(worker, worker, scripted) is scripted
    module = torch.jit.script(torch.nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="Tried to serialize object"):
        serialize(worker, [module])
    for back in (there(worker, worker, module), there(worker, worker, [module])[0]):
        assert back is not module
        assert torch.equal(back(torch.ones(2)), module(torch.ones(2)))


def test_a_registered_reducer_is_used_for_its_class_alone(worker):
    rpc_state(worker).class_reducers[set] = lambda obj: (sorted, (list(obj),))
    rpc_state(worker).class_reducers[collections.Counter] = lambda obj: (dict, ([("n", 1)],))
    assert there(worker, worker, collections.Counter("aab")) == {"n": 1}


@dataclasses.dataclass
class Nested:
    inner: Any


class Loud(enum.IntFlag):
    YES = 1


def test_serialization_inside_serialization_keeps_the_tensors_apart(worker):
    outer, inner = torch.ones(1), torch.zeros(1)

    class Recursive(Nested):
        def __reduce__(self):
            payload, tensors = serialize(worker, [self.inner])
            assert len(tensors) == 1
            return list, ([payload],)

    payload, tensors = serialize(worker, [outer, Recursive(inner), Loud.YES])
    assert len(tensors) == 1 and tensors[0] is outer
    back = deserialize(worker, payload, tensors)
    assert back[0] is outer and back[2] is Loud.YES


def test_an_exception_becomes_a_value_that_holds_no_frames(worker, capsys):
    class Held:
        pass

    kept = []

    def fail():
        held = Held()
        kept.append(__import__("weakref").ref(held))
        error = ValueError("no")
        error.again = error  # a cycle: only dropping the traceback frees the frame
        raise error

    outcome = run_function(worker, PythonUDF(fail, (), {}))
    assert kept[0]() is None
    assert type(outcome) is RemoteException and outcome.exception_type is ValueError
    assert outcome.msg.startswith("On None:\nValueError('no')\nTraceback")
    assert outcome.msg in capsys.readouterr().err
    with pytest.raises(ValueError, match="in fail"):
        handle_exception(outcome)


def test_an_exception_that_takes_more_than_a_text_becomes_a_runtime_error():
    class OddError(Exception):
        def __init__(self, a, b):
            super().__init__(a, b)

    with pytest.raises(RuntimeError, match="Failed to create original exception type"):
        handle_exception(RemoteException("what happened", OddError))
