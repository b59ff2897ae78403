"""What stands on stock PyTorch for squall's own modules and classes, in code that uses them."""

from __future__ import annotations

from squall.model.program.operations import PlantedError
from squall.model.program.stories import StoryError
from squall.real.autograd import api as autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.functions import async_execution
from squall.real.rpc.optimizer import DistributedOptimizer
from squall.sim.programs.stories.calls import sleep
from squall.sim.programs.stories.updates import new_lock

_RPC = "import torch.distributed.rpc as rpc"
_AUTOGRAD = "import torch.distributed.autograd as dist_autograd"

#: by the id of the object: what stands for it, and the import that this needs
STOCK: dict[int, tuple[str, str]] = {
    id(rpc): ("rpc", _RPC),
    id(autograd): ("dist_autograd", _AUTOGRAD),
    id(async_execution): ("rpc.functions.async_execution", _RPC),
    id(new_lock): ("threading.Lock", "import threading"),
    id(DistributedOptimizer): (
        "DistributedOptimizer",
        "from torch.distributed.optim import DistributedOptimizer",
    ),
    id(sleep): ("time.sleep", "import time"),
    id(PlantedError): ("PlantedError", ""),
    id(StoryError): ("PlantedError", ""),
}
