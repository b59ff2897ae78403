"""A script that writes what is public in the modules it is given the names of, as JSON.

    python api_walk.py FILE MODULE...

By module and name, and by name and member for classes that are no exceptions: its kind, its
name, its parameters if :func:`inspect.signature` knows them, and a checksum of its documentation. Runs by itself, and in a simulated process.
"""

import importlib
import inspect
import json
import re
import sys
import typing
import zlib

MARKS = {
    inspect.Parameter.POSITIONAL_ONLY: "{}/",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "{}",
    inspect.Parameter.VAR_POSITIONAL: "*{}",
    inspect.Parameter.KEYWORD_ONLY: "{}:",
    inspect.Parameter.VAR_KEYWORD: "**{}",
}


def kind(thing):
    if inspect.isclass(thing):
        return "class"
    if inspect.ismodule(thing):
        return "module"
    if typing.get_origin(thing) is not None:  # an alias of types, which some Pythons can call
        return "other"
    return "callable" if callable(thing) else "other"


def parameters(thing):
    """Their names, marked by kind and with "=" for those that have a default; None: not known."""
    try:
        found = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return None
    return [
        MARKS[each.kind].format(each.name) + "=" * (each.default is not each.empty)
        for each in found
    ]


def checksum(text):
    """Addresses left out, which documentation of compiled functions shows as defaults."""
    if not isinstance(text, str):
        return None
    return zlib.crc32(re.sub("0x[0-9a-f]+", "", text).encode())


def described(thing):
    what = kind(thing)
    if what not in ("class", "callable"):
        return {"kind": what}
    return {
        "kind": what,
        "parameters": parameters(thing),
        "documentation": checksum(getattr(thing, "__doc__", None)),
        "name": getattr(thing, "__name__", None),
    }


def public(thing):
    return [name for name in dir(thing) if not name.startswith("_")]


def walk(module):
    rows = {}
    for name in public(module):
        value = getattr(module, name)
        rows[name] = described(value)
        if inspect.isclass(value) and not issubclass(value, BaseException):
            for member in public(value):
                if hasattr(value, member):  # and not its instances alone
                    rows[f"{name}.{member}"] = described(getattr(value, member))
    return rows


def load(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        parent, _, child = name.rpartition(".")
        return getattr(importlib.import_module(parent), child, None) if parent else None


if __name__ == "__main__":
    modules = {name: load(name) for name in sys.argv[2:]}
    found = {name: module and walk(module) for name, module in modules.items()}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(found, file)
