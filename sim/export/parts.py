"""What a script is put together from, while the operations and steps of a program are written."""

from __future__ import annotations

from squall.model.program.source import Definitions
from squall.sim.export.stock import STOCK
from squall.sim.export.text import TOGETHER, Lines

#: names of a script that no definition may have
_TAKEN = frozenset(
    [
        "LEAVES",
        "OWNERS",
        "WORLD_SIZE",
        "Functions",
        "kept",
        "main",
        "rank",
        "rpc",
        "dist_autograd",
        "mp",
        "os",
        "socket",
        "threading",
        "time",
        "torch",
        "run",
        "run_step",
        "show",
        "show_gradients",
        "gradients_here",
        "together",
        "get_leaf",
        "free_port",
        "raiser",
        "RaiseInBackward",
        "SleepInBackward",
        "Sleeping",
        "run_pass",
        "show_error",
        "PlantedError",
        "name",
        "context_id",
        "faulty",
        "optimizer",
        "stories",
    ]
)


class Parts:
    """Imports, definitions, helpers and functions of a script, each once."""

    def __init__(self) -> None:
        self.definitions = Definitions(STOCK, _TAKEN)
        #: parts that are the same in every script that has them, by name
        self.helpers: dict[str, str] = {}
        #: functions of the program, in the order in which they are defined
        self.functions: list[Lines] = []
        #: those of them that are called through a reference to an object of a worker
        self.methods: dict[str, None] = {}
        #: whether workers keep references until the end
        self.keeps = False

    def use(self, line: str) -> None:
        """The script needs this import."""
        self.definitions.use(line)

    def helper(self, name: str, text: str) -> None:
        """The script needs this part."""
        self.helpers[name] = text

    def use_together(self) -> None:
        """The script calls functions in threads."""
        self.use("import threading")
        self.helper("together", TOGETHER)

    def function(self, lines: Lines) -> None:
        """The script has this function."""
        self.functions.append(lines)
