"""Helpers of references, for every kind of member: what a method would give that is called on the value itself."""

import functools

import torch
import torch.distributed.rpc as rpc
from promise import alike, outcome, promise, shown, start


class Base:
    def inherited(self):
        return "inherited"


class Thing(Base):
    """Has members of every kind."""

    shared = "of the class"
    made = functools.partialmethod(Base.inherited)

    def __init__(self, items=()):
        self.items = list(items)
        self.added = lambda x: x + 1
        self.bound = self.items.append

    def method(self, x, *, y=0):
        return x + y

    @staticmethod
    def static(x):
        return x * 2

    @classmethod
    def of_class(cls):
        return cls.__name__

    @property
    def prop(self):
        return lambda x: x - 1

    @functools.cached_property
    def cached(self):
        return lambda x: x - 2

    @functools.lru_cache  # noqa: B019 - a kind of member
    def remembered(self, x):
        return x * 3

    async def waits(self):
        return 1

    def many(self):
        yield from self.items

    def __getattr__(self, name):
        if name.startswith("any_"):
            return lambda *args: (name, *args)
        raise AttributeError(name)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, at):
        return self.items[at]

    def __setitem__(self, at, value):
        self.items[at] = value

    def __delitem__(self, at):
        del self.items[at]

    def __contains__(self, x):
        return x in self.items

    def __call__(self, x):
        return x, "called"

    def __iter__(self):
        return iter(self.items)

    def __eq__(self, other):
        return other == "equal to all"

    def __hash__(self):
        return 77

    def __repr__(self):
        return "a thing"

    def __str__(self):
        return "a text"

    def __bool__(self):
        return False

    def __add__(self, x):
        return ("added", x)

    def __enter__(self):
        return "entered"

    def __exit__(self, *_):
        return None

    def __int__(self):
        return 5

    def __lt__(self, other):
        return other == 3

    def __reversed__(self):
        return self.items[::-1]

    def __format__(self, spec):
        return f"formatted {spec}"


def made():
    return Thing([1, 2, 3])


#: by name: a member and its arguments
CALLS = {
    "a method": ("method", (1,), {"y": 2}),
    "an inherited method": ("inherited", (), {}),
    "a static method": ("static", (2,), {}),
    "a class method": ("of_class", (), {}),
    "a partial method": ("made", (), {}),
    "a property that is called": ("prop", (3,), {}),
    "a cached property": ("cached", (3,), {}),
    "a remembered method": ("remembered", (3,), {}),
    "a function in an attribute": ("added", (1,), {}),
    "a bound method in an attribute": ("bound", (9,), {}),
    "a name that __getattr__ makes": ("any_name", (1,), {}),
    "a name that there is not": ("nothing", (), {}),
    "a text that is no function": ("shared", (), {}),
    "a wrong argument": ("method", (), {"z": 1}),
    **{
        f"__{name}__": (f"__{name}__", args, {})
        for name, args in {
            "len": (),
            "getitem": (1,),
            "setitem": (0, 5),
            "delitem": (0,),
            "contains": (2,),
            "call": (1,),
            "eq": ("equal to all",),
            "ne": ("equal to all",),
            "hash": (),
            "repr": (),
            "str": (),
            "bool": (),
            "add": (4,),
            "enter": (),
            "int": (),
            "lt": (3,),
            "reversed": (),
            "format": ("x",),
            "setattr": ("items", [8]),
            "delattr": ("items",),
            "getattribute": ("shared",),
            "init": ([7],),
        }.items()
    },
}
#: values of Python's and torch's own
VALUES = {
    "list": ([1, 2], "__len__", ()),
    "dict": ({"a": 1}, "get", ("a",)),
    "text": ("ab", "upper", ()),
    "number": (5, "bit_length", ()),
    "bytes": (b"ab", "hex", ()),
    "float": (2.0, "is_integer", ()),
    "tuple": ((1, 2), "count", (1,)),
    "set": ({1}, "union", ({2},)),
    "bool": (True, "__and__", (False,)),
    "complex": (1j, "conjugate", ()),
    "tensor": (torch.ones(2), "sum", ()),
    "None": (None, "__bool__", ()),
    "module": (torch.nn.Linear(1, 1).requires_grad_(False), "extra_repr", ()),
}


def same(value):
    return value


def attributes(thing):
    return {name: value for name, value in sorted(vars(thing).items()) if name == "items"}


WAYS = {
    "rpc_sync": lambda ref, name, args, kwargs: getattr(ref.rpc_sync(), name)(*args, **kwargs),
    "rpc_async": lambda ref, name, args, kwargs: getattr(ref.rpc_async(), name)(
        *args, **kwargs
    ).wait(),
    "remote": lambda ref, name, args, kwargs: getattr(ref.remote(), name)(
        *args, **kwargs
    ).to_here(),
}


def main():
    for where, to in (("", "w1"), (" at home", "w0")):
        for way, call in WAYS.items():
            for name, (member, args, kwargs) in CALLS.items():
                here, there = made(), rpc.remote(to, made)
                expected = outcome(lambda: getattr(here, member)(*args, **kwargs))
                promise(
                    f"{name} by {way}{where}", lambda: call(there, member, args, kwargs), expected
                )
                after = outcome(lambda: rpc.rpc_sync(to, attributes_of, (there,)))
                if not alike(after, attributes(here)):
                    print(
                        f"{name} by {way}{where}, afterwards: not so: {shown(after)}, promised {shown(attributes(here))}"
                    )
            for name, (value, member, args) in VALUES.items():
                expected = outcome(lambda: getattr(value, member)(*args))
                promise(
                    f"{name}.{member} by {way}{where}",
                    lambda: call(rpc.remote(to, same, (value,)), member, args, {}),
                    expected,
                )
                promise(
                    f"{name}.{member} of a value by {way}{where}",
                    lambda: call(rpc.RRef(value), member, args, {}),
                    expected,
                )


def attributes_of(ref):
    return attributes(ref.local_value())


if __name__ == "__main__":
    start(main)
