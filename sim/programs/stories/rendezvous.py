"""Stories about where workers meet, and about options that no backend takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from squall.model.program.stories import stories_of
from squall.real.autograd.api import is_available
from squall.real.rpc import api as rpc
from squall.real.rpc.backend_registry import backend_registered, register_backend
from squall.real.rpc.options import TensorPipeRpcBackendOptions
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.stories.api import told
from squall.sim.programs.stories.calls import error_of
from squall.sim.programs.stories.own_process import OWN_AGENTS, Visitor, all_do, network_beside

label_module(__name__, "meeting")
story = stories_of(__name__, rank=131)

_INCOMPATIBLE = "__init__(): incompatible constructor arguments"
_URL = "Error initializing torch.distributed using "
#: virtual seconds by which all have met, or heard that they will not
_PROMPT_S = 60.0


class _Way(NamedTuple):
    """An init method, and with what the error of each begins; none where they meet. ``open``: the
    group has no fixed size. ``rank``: of all of them, if not their own."""

    where: str
    error: str = ""
    open: bool = False
    rank: int | None = None


_WAYS = (
    _Way("tcp://story:29500"),
    _Way("tcp://[::1]:1"),
    _Way("tcp://story:65535", open=True),
    _Way("file:///story/of/a/meeting"),
    _Way("file:///story", open=True),
    _Way("sim://story/meeting?told"),
    _Way("tcp://story", f"ValueError: {_URL}tcp:// rendezvous: port number missing"),
    _Way("tcp://story:65536", "ValueError: Port out of range 0-65535"),
    _Way("file://", f"ValueError: {_URL}file:// rendezvous: path missing"),
    _Way("pigeon://story", "RuntimeError: No rendezvous handler for pigeon://"),
    _Way("tcp://story:1?rank=0", "AssertionError: The url: tcp://story:1?rank=0 has node-specific"),
    _Way("tcp://story:1?world_size=9", "AssertionError: The url: tcp://story:1?world_size=9 has"),
    _Way("tcp://story:1?rank=0", "AssertionError: The url: tcp://story:1?rank=0 has", rank=-1),
    _Way("tcp://story:1", f"ValueError: {_URL}tcp:// rendezvous: rank parameter missing", True, -1),
)


@story(
    "ways to meet",
    numbers={"way": (0, len(_WAYS) - 1), "count": (1, 4)},
    longest_s=100.0,
    port_only=OWN_AGENTS,
)
def ways_to_meet(to: int, way: int, count: int) -> str:
    """Workers meet by whatever names one place to all of them, and are refused what names none."""
    where, error, is_open, rank = _WAYS[way]
    network = network_beside()
    runtime = network.runtime
    there = [Visitor(network, f"met:{number}", number) for number in range(count)]
    for each in there:
        each.number = each.number if rank is None else rank
    began = runtime.now()
    given: dict[str, Any] = {} if is_open else {"world_size": count}
    entered = [error_of(end.wait) for end in [each.enter(where, **given) for each in there]]
    prompt = runtime.now() - began < _PROMPT_S
    if error:
        return told(refused=all(each.startswith(error) for each in entered), prompt=prompt)
    if set(entered) != {"no error but None"}:
        return told(entered=False)
    everybody = [(each.name, each.number) for each in there]
    seen = [each.sees() for each in there]
    called = there[0].do(lambda: rpc.rpc_sync(everybody[-1][0], len, args=("told",)))
    all_do(there, rpc.shutdown)
    return told(prompt=prompt, seen=all(found == everybody for found in seen), called=called == 4)


def _given(**given: Any) -> tuple[Any, ...]:
    options = TensorPipeRpcBackendOptions(**given)
    return options.num_worker_threads, options.rpc_timeout, options.init_method


def _register(name: str) -> str:
    """Register a backend of that name, in a process of its own."""
    visitor = Visitor(network_beside(), "alone", 0)
    make = partial(register_backend, name, TensorPipeRpcBackendOptions, print)
    return f"{visitor.do(make).name}, {visitor.do(partial(backend_registered, name))}"


def _with_devices(*devices: str) -> list[str]:
    options = TensorPipeRpcBackendOptions(devices=list(devices), init_method="sim://nowhere")
    return [str(device) for device in options.devices]


def _with_maps(*maps: dict[Any, Any]) -> dict[str, str]:
    """What comes of maps to one worker, set one after the other."""
    options = TensorPipeRpcBackendOptions(init_method="sim://nowhere")
    for each in maps:
        options.set_device_map("ps", each)
    found = options.device_maps.get("ps", {})
    return {str(key): str(value) for key, value in found.items()}


#: what is asked for, and what comes of it
_OPTIONS: tuple[tuple[Callable[[], Any], str], ...] = (
    (_given, "no error but (16, 60.0, 'env://')"),
    (
        partial(_given, rpc_timeout=0, num_worker_threads=3, init_method="sim://x"),
        "no error but (3, 0.0, 'sim://x')",
    ),
    (partial(_given, rpc_timeout=-1), "RuntimeError: RPC Timeout must be non-negative"),
    (partial(_given, rpc_timeout="5"), f"TypeError: {_INCOMPATIBLE}"),
    (partial(_given, rpc_timeout=[5]), f"TypeError: {_INCOMPATIBLE}"),
    (partial(_given, init_method=5), f"TypeError: {_INCOMPATIBLE}"),
    (partial(_given, num_worker_threads=2.0), f"TypeError: {_INCOMPATIBLE}"),
    (partial(_given, num_worker_threads=0), "RuntimeError: num_worker_threads must be positive"),
    (partial(_given, _transports=["uv", "wire"]), "RuntimeError: Unknown transport: wire"),
    (partial(_given, _channels=["none"]), "RuntimeError: Unknown channel: none"),
    (
        partial(_given, _channels=["basic"], _transports=["shm"]),
        "no error but (16, 60.0, 'env://')",
    ),
    (partial(_register, "PIGEONS"), "no error but 'PIGEONS, True'"),
    (partial(_register, "TENSORPIPE"), "RuntimeError: RPC backend TENSORPIPE: already registered"),
    (lambda: (is_available(), backend_registered("PIGEONS")), "no error but (True, False)"),
    (partial(_with_devices, "cuda:1", "cuda:0"), "no error but ['cuda:1', 'cuda:0']"),
    (
        partial(_with_devices, "cuda:1", "cpu"),
        "ValueError: `set_devices` expect a list of CUDA devices, but got device type cpu.",
    ),
    (
        partial(_with_maps, {"cuda:0": "cuda:1"}, {"cuda:1": "cuda:2"}),
        "no error but {'cuda:0': 'cuda:1', 'cuda:1': 'cuda:2'}",
    ),
    (
        partial(_with_maps, {"cuda:0": "cuda:1"}, {"cuda:0": "cuda:3"}),
        "ValueError: `set_device_map` only supports 1-to-1 mapping, trying to map cuda:0 to cuda:3 "
        "and cuda:1",
    ),
    (
        partial(_with_maps, {"cuda:0": "cuda:1", "cuda:2": "cuda:1"}),
        "ValueError: `device_map` only supports 1-to-1 mapping, trying to map cuda:2 and cuda:0 to "
        "cuda:1",
    ),
)


@story(
    "options of backends",
    numbers={"asked": (0, len(_OPTIONS) - 1)},
    port_only="the options are squall's own on both engines",
)
def options_of_backends(to: int, asked: int) -> str:
    """Options are taken as they are given, or refused at once; so is the name of a backend."""
    ask, wanted = _OPTIONS[asked]
    came = error_of(ask)
    return told(**{f"asked_{asked}": came.startswith(wanted)})
