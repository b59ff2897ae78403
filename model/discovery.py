"""Finds all modules of a folder, so that a new file in it needs no entry anywhere else."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def modules_in(package: str) -> list[ModuleType]:
    """All modules of a package (not of those inside it), imported, in the order of their names.

    The order decides nothing that is drawn or checked: whoever keeps a registry sorts what it
    finds by a rank that is declared there.
    """
    paths = importlib.import_module(package).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(paths) if not module.ispkg)
    return [importlib.import_module(f"{package}.{name}") for name in names]
