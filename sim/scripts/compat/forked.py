"""What a forked child inherits of its parent's memory: data of its modules, and random state."""

from __future__ import annotations

from contextlib import suppress
from types import FunctionType, ModuleType

import torch

from squall.sim.scripts.compat.modules import CHILD_MAIN, MAIN
from squall.sim.scripts.compat.process import SimProcess
from squall.sim.scripts.compat.process_pickling import Parcel


class Memory:
    """What a forked child finds in its modules: copies of the parent's data, and random state."""

    def __init__(self, parent: SimProcess) -> None:
        space = parent.space
        self.modules: dict[str, dict[str, Parcel]] = {}
        for name, module in space.own.items():
            if name == CHILD_MAIN or space.is_library(name):
                continue
            kept = self.modules[name] = {}
            for key, value in list(vars(module).items()):
                if key.startswith("__") or isinstance(value, ModuleType | FunctionType | type):
                    continue
                # A lock, a file, a generator: the child keeps the one it has made itself.
                with suppress(Exception):
                    kept[key] = Parcel(value, space, share=False)
        self.torch = torch.default_generator.get_state()
        random = space.loaded.get("random")
        self.random = random.getstate() if random is not None else None
        numpy_random = space.loaded.get("numpy.random")
        self.numpy = numpy_random.get_state() if numpy_random is not None else None

    def restore(self, process: SimProcess) -> None:
        for name, values in self.modules.items():
            module = process.space.load(name)
            for key, parcel in values.items():
                with suppress(Exception):  # what stands for something that is there no more
                    vars(module)[key] = parcel.open()
        process.space.load(MAIN).__name__ = MAIN
        torch.default_generator.set_state(self.torch)
        if self.random is not None:
            process.space.load("random").setstate(self.random)
        if self.numpy is not None:
            process.space.load("numpy.random").set_state(self.numpy)
