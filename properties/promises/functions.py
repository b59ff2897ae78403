"""Functions and constructors that are not tensor operators: what comes of them elsewhere is what comes of them here."""

import builtins
import collections
import datetime
import decimal
import fractions
import functools
import math
import operator
import os.path
import pathlib
import re
import string

import torch
import torch.distributed.rpc as rpc
from promise import same_as_here, start


class Own:
    """A class of a script's own."""

    def __init__(self, a=0, *, b=0):
        self.a, self.b = a, b

    def __eq__(self, other):
        return type(other) is Own and (self.a, self.b) == (other.a, other.b)

    __hash__ = None

    def method(self, x):
        return self.a + x

    @staticmethod
    def static(x):
        return x + 1

    @classmethod
    def of(cls, x):
        return cls(x)

    def __call__(self, x):
        return self.a * x


Point = collections.namedtuple("Point", "x y")
X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])

#: by name: the function, its arguments, and by keyword
CALLS = {
    **{
        f"math.{name}": (getattr(math, name), args, {})
        for name, args in {
            "factorial": (25,),
            "sqrt": (2.0,),
            "gcd": (12, 18),
            "floor": (2.7,),
            "ceil": (-2.7,),
            "pow": (2, 10),
            "log": (8, 2),
            "log2": (8,),
            "log10": (0.001,),
            "exp": (1,),
            "hypot": (3, 4),
            "isclose": (1.0, 1.0 + 1e-12),
            "prod": ([1, 2, 3],),
            "fsum": ([0.1] * 10,),
            "comb": (10, 3),
            "perm": (10, 3),
            "isqrt": (10**20,),
            "copysign": (1, -0.0),
            "fabs": (-1,),
            "fmod": (-7, 3),
            "modf": (2.5,),
            "frexp": (8.0,),
            "ldexp": (0.5, 4),
            "trunc": (-2.7,),
            "degrees": (math.pi,),
            "radians": (180,),
            "erf": (0.5,),
            "gamma": (5,),
            "lgamma": (5,),
            "sin": (1,),
            "cos": (1,),
            "tan": (1,),
            "asin": (1,),
            "atan2": (1, 2),
            "sinh": (1,),
            "isnan": (math.nan,),
            "isinf": (math.inf,),
            "isfinite": (1,),
            "lcm": (4, 6),
            "remainder": (7, 3),
            "dist": ([0, 0], [3, 4]),
        }.items()
    },
    **{
        f"builtins.{name}": (getattr(builtins, name), args, {})
        for name, args in {
            "len": ([1, 2],),
            "sum": ([1, 2],),
            "abs": (-1,),
            "min": (1, 2),
            "max": ([1, 2],),
            "sorted": ([2, 1],),
            "round": (2.5,),
            "pow": (2, 3, 5),
            "divmod": (7, 3),
            "int": ("12",),
            "float": ("1.5",),
            "bool": ([],),
            "str": (12,),
            "bytes": (3,),
            "bytearray": (b"a",),
            "complex": (1, 2),
            "list": ((1, 2),),
            "tuple": ([1, 2],),
            "dict": ([("a", 1)],),
            "set": ([1, 1],),
            "frozenset": ([1],),
            "range": (3,),
            "slice": (1, 2),
            "ord": ("a",),
            "chr": (97,),
            "hex": (255,),
            "oct": (8,),
            "bin": (5,),
            "repr": ("a",),
            "ascii": ("é",),
            "hash": (12,),
            "isinstance": (1, int),
            "issubclass": (bool, int),
            "callable": (len,),
            "all": ([1, 0],),
            "any": ([1, 0],),
            "getattr": (Own(5), "a"),
            "hasattr": (Own(), "c"),
            "format": (255, "x"),
            "type": (1,),
            "eval": ("1 + 1",),
            "vars": (Own(1),),
            "dir": (1,),
        }.items()
    },
    **{
        f"operator.{name}": (getattr(operator, name), args, {})
        for name, args in {
            "add": (1, 2),
            "sub": (5, 3),
            "mul": ("ab", 2),
            "truediv": (1, 3),
            "floordiv": (-7, 2),
            "mod": (-7, 3),
            "pow": (2, 100),
            "neg": (1,),
            "pos": (1,),
            "not_": (0,),
            "and_": (6, 3),
            "or_": (6, 3),
            "xor": (6, 3),
            "invert": (5,),
            "lshift": (1, 70),
            "rshift": (5, 1),
            "eq": (1, 1.0),
            "ne": (1, 2),
            "lt": (1, 2),
            "le": (2, 2),
            "gt": (1, 2),
            "ge": (1, 2),
            "concat": ([1], [2]),
            "contains": ([1], 1),
            "getitem": ({"a": 1}, "a"),
            "index": (True,),
            "truth": ([],),
            "is_": (None, None),
            "is_not": (1, None),
            "abs": (-3,),
            "countOf": ([1, 1], 1),
            "indexOf": ([1, 2], 2),
            "matmul": (X, X),
        }.items()
    },
    "str.upper": (str.upper, ("a",), {}),
    "str.join": (str.join, (",", ["a", "b"]), {}),
    "a bound method of a text": ("a-b".split, ("-",), {}),
    "list.append": (list.append, ([1], 2), {}),
    "dict.get": (dict.get, ({"a": 1}, "b", 3), {}),
    "dict by keyword": (dict, (), {"a": 1}),
    "sorted by keyword": (sorted, ([1, 3, 2],), {"reverse": True}),
    "int by keyword": (int, ("11",), {"base": 2}),
    "dict.fromkeys": (dict.fromkeys, (["a"], 0), {}),
    "bytes.fromhex": (bytes.fromhex, ("ff",), {}),
    "a class": (Own, (1,), {"b": 2}),
    "a bound method": (Own(3).method, (4,), {}),
    "a method of a class": (Own.method, (Own(3), 4), {}),
    "a static method": (Own.static, (1,), {}),
    "a class method": (Own.of, (4,), {}),
    "an object that is called": (Own(3), (5,), {}),
    "a partial": (functools.partial(Own, 1), (), {"b": 2}),
    "functools.reduce": (functools.reduce, (operator.add, [1, 2]), {}),
    "a named tuple": (Point, (1, 2), {}),
    "collections.Counter": (collections.Counter, ("aab",), {}),
    "collections.OrderedDict": (collections.OrderedDict, ([("a", 1)],), {}),
    "collections.deque": (collections.deque, ([1],), {}),
    "datetime.date": (datetime.date, (2026, 1, 2), {}),
    "decimal.Decimal": (decimal.Decimal, ("1.10",), {}),
    "fractions.Fraction": (fractions.Fraction, (1, 3), {}),
    "pathlib.PurePosixPath": (pathlib.PurePosixPath, ("a/b",), {}),
    "re.sub": (re.sub, ("a", "b", "aa"), {}),
    "os.path.join": (os.path.join, ("a", "b"), {}),
    "string.capwords": (string.capwords, ("a b",), {}),
    "an itemgetter": (operator.itemgetter(1), ([1, 2],), {}),
    "None as a function": (None, (), {}),
    "a number as a function": (1, (), {}),
    "a text as a function": ("len", (), {}),
    **{
        f"torch.{name}": (getattr(torch, name), args, kwargs)
        for name, args, kwargs in (
            ("zeros", (2, 3), {}),
            ("zeros", ((2, 3),), {}),
            ("ones", (2,), {"dtype": torch.int64}),
            ("tensor", ([1, 2],), {}),
            ("full", ((2,), 7), {}),
            ("arange", (3,), {}),
            ("eye", (2,), {}),
            ("stack", ([X, X],), {}),
            ("cat", ([X, X], 1), {}),
            ("einsum", ("ij,jk->ik", X, X), {}),
            ("max", (X,), {"dim": 0}),
            ("sort", (X,), {}),
            ("split", (X, 1), {}),
            ("is_tensor", (X,), {}),
            ("numel", (X,), {}),
            ("allclose", (X, X), {}),
            ("equal", (X, X), {}),
            ("topk", (X, 1), {}),
            ("device", ("cpu",), {}),
            ("Size", ((1, 2),), {}),
            ("is_grad_enabled", (), {}),
            ("finfo", (torch.float32,), {}),
            ("where", (X > 0, X, X * 2), {}),
            ("norm", (X,), {}),
            ("meshgrid", (X[0], X[0]), {"indexing": "ij"}),
            ("broadcast_shapes", ((2, 1), (1, 3)), {}),
            ("promote_types", (torch.int8, torch.float32), {}),
            ("as_tensor", ([1.0],), {}),
            ("mul", (2, X), {}),
            ("add", (X, X), {"alpha": 2}),
            ("clamp", (X,), {"min": 0}),
            ("unbind", (X,), {}),
            ("chunk", (X, 2), {}),
            ("linspace", (0, 1, 3), {}),
            ("aminmax", (X,), {}),
            ("svd", (X,), {}),
            ("atleast_2d", (X[0],), {}),
            ("cartesian_prod", (X[0], X[0]), {}),
            ("block_diag", (X, X), {}),
            ("result_type", (X, 1), {}),
        )
    },
    "torch.nn.functional.relu": (torch.nn.functional.relu, (X,), {}),
    "torch.nn.functional.softmax": (torch.nn.functional.softmax, (X,), {"dim": 0}),
    "torch.nn.functional.linear": (torch.nn.functional.linear, (X, X), {}),
    "torch.Tensor.add": (torch.Tensor.add, (X, 1), {}),
    "torch.Tensor.size": (torch.Tensor.size, (X,), {}),
    "a method of a tensor": (X.add, (1,), {}),
    "torch.linalg.norm": (torch.linalg.norm, (X,), {}),
    "torch.float": (torch.Tensor.float, (X,), {}),
}
WAYS = {
    "rpc_sync": lambda *call: rpc.rpc_sync("w1", *call),
    "rpc_async": lambda *call: rpc.rpc_async("w1", *call).wait(),
    "remote": lambda *call: rpc.remote("w1", *call).to_here(),
    "rpc_sync at home": lambda *call: rpc.rpc_sync("w0", *call),
}


#: operators with several results: a reference to these never has one (results-by-remote-never-come)
SEVERAL = (
    "math.modf",
    "math.frexp",
    "torch.max",
    "torch.sort",
    "torch.topk",
    "torch.aminmax",
    "torch.svd",
)


def main():
    for name, (function, args, kwargs) in CALLS.items():
        for way, call in WAYS.items():
            if way == "remote" and name in SEVERAL:
                continue
            same_as_here(
                f"{name} by {way}",
                lambda: call(function, args, kwargs),
                lambda: function(*args, **kwargs),
            )


if __name__ == "__main__":
    start(main)
