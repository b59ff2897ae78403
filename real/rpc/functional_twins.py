"""The functional twins of torch's optimizers, each loaded by itself.

To import the package ``torch.distributed.optim`` takes more than a second: it compiles eight
classes and imports all of FSDP. A twin needs only the file that it is in. It is loaded under its
own name, where the package finds it if somebody imports that later.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import torch.distributed
from torch import optim

from squall.real.process_locks import COMPILING

_PACKAGE = "torch.distributed.optim"
_WARNING = "_deprecation_warning"
#: by optimizer: the module of its twin, and the twin's name
_TWINS: dict[Any, tuple[str, str]] = {
    optim.Adagrad: ("functional_adagrad", "_FunctionalAdagrad"),
    optim.Adam: ("functional_adam", "_FunctionalAdam"),
    optim.AdamW: ("functional_adamw", "_FunctionalAdamW"),
    optim.SGD: ("functional_sgd", "_FunctionalSGD"),
    optim.Adadelta: ("functional_adadelta", "_FunctionalAdadelta"),
    optim.RMSprop: ("functional_rmsprop", "_FunctionalRMSprop"),
    optim.Rprop: ("functional_rprop", "_FunctionalRprop"),
    optim.Adamax: ("functional_adamax", "_FunctionalAdamax"),
}


def functional_twin(optimizer: Any) -> Any:
    """What torch steps in the place of an optimizer class; None if there is nothing such.

    What a script has registered with torch counts: to do so it has imported the package.
    """
    with COMPILING:
        return _functional_twin(optimizer)


def _functional_twin(optimizer: Any) -> Any:
    known = sys.modules.get(f"{_PACKAGE}.utils")
    if known is None and optimizer not in _TWINS:
        return None
    if known is None:
        module, name = _TWINS[optimizer]
        if _load(_WARNING) and (loaded := _load(module)) and hasattr(loaded, name):
            return getattr(loaded, name)
    from torch.distributed.optim.utils import functional_optim_map

    return functional_optim_map.get(optimizer)


def register_twin(optimizer: Any, twin: Any) -> None:
    """Register a functional twin with torch, unless one is registered for ``optimizer``."""
    with COMPILING:
        # The module of torch's map finds the twins that are loaded, and does not ask the package.
        if _load(_WARNING) and all(_load(module) for module, _ in _TWINS.values()):
            _load("utils")
        from torch.distributed.optim.utils import functional_optim_map, register_functional_optim

        if optimizer not in functional_optim_map:
            register_functional_optim(optimizer, twin)


def _load(name: str) -> ModuleType | None:
    """A module of the package, without the package; None if there is no such file."""
    full = f"{_PACKAGE}.{name}"
    loaded = sys.modules.get(full)
    if loaded is not None:
        return loaded
    path = Path(torch.distributed.__file__).with_name("optim") / f"{name}.py"
    spec = importlib.util.spec_from_file_location(full, loader=_Loader(full, str(path)))
    if not path.exists() or spec is None or spec.loader is None:
        return None
    loaded = sys.modules[full] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(loaded)
    except BaseException:
        del sys.modules[full]
        raise
    return loaded


class _Loader(SourceFileLoader):
    """Loads a class as Python alone, which is how it is run here. TorchScript compiles it where a
    function that is compiled uses it."""

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_source(fullname) or ""
        source = source.replace("@torch.jit.script\n", "\n")
        return compile(source, self.path, "exec", dont_inherit=True)
