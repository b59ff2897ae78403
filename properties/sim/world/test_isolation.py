"""What torch keeps per thread, and what a process owns, is swapped with the task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from squall.real.worker import Worker
from squall.sim.world.device import quiet_torch
from squall.sim.world.isolation import TorchIsolation
from squall.sim.world.network import Network
from squall.sim.world.scheduler import SimRuntime


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Function(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextmanager
def default_device(name: str) -> Iterator[None]:
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)


def state() -> tuple[Any, ...]:
    nesting = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    core: Any = torch._C
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
        nesting,
        core._len_torch_function_stack(),
        core._len_torch_dispatch_stack(),
        core._is_torch_function_enabled(),
        core._autograd._top_saved_tensors_default_hooks(True),
        core._autograd._saved_tensors_hooks_is_enabled(),
        str(torch.get_default_device()),
        torch.ones(1).device.type,
        (torch.ones(1, requires_grad=True) * 2).requires_grad,
    )


def pack(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


SETTINGS: dict[str, list[Callable[[], AbstractContextManager[Any]]]] = {
    "no_grad": [torch.no_grad],
    "inference": [torch.inference_mode],
    "out of inference": [torch.inference_mode, lambda: torch.inference_mode(False), torch.no_grad],
    "autocast": [lambda: torch.autocast("cpu", dtype=torch.float16)],
    "autocast twice": [
        lambda: torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False),
        lambda: torch.autocast("cpu", dtype=torch.float16),
    ],
    "saved tensor hooks": [
        lambda: torch.autograd.graph.saved_tensors_hooks(pack, pack),
        lambda: torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x),
    ],
    "no saved tensor hooks": [lambda: torch.autograd.graph.disable_saved_tensors_hooks("no")],
    "modes": [Dispatch, Function, Dispatch, Function],
    "no torch function": [torch._C.DisableTorchFunctionSubclass],
    "default device": [lambda: default_device("meta")],
    "everything": [
        torch.no_grad,
        lambda: torch.autocast("cpu"),
        Function,
        Dispatch,
        lambda: torch.autograd.graph.saved_tensors_hooks(pack, pack),
        torch.inference_mode,
    ],
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_stays_with_its_task(name: str) -> None:
    runtime = SimRuntime(isolation=TorchIsolation())
    default = state()
    seen: list[tuple[Any, ...]] = []

    def tinkerer() -> None:
        with ExitStack() as stack:
            for make in SETTINGS[name]:
                stack.enter_context(make())
            mine = state()
            assert mine != default
            runtime.spawn(newcomer, name="newcomer", daemon=False)
            for _ in range(3):
                runtime.sleep(1.0)
                assert state() == mine
        assert state() == default

    def newcomer() -> None:
        seen.append(state())

    def bystander() -> None:
        for _ in range(4):
            seen.append(state())
            runtime.sleep(0.5)

    for task in (tinkerer, bystander):
        runtime.spawn(task, name=task.__name__, daemon=False)
    runtime.run()
    assert len(seen) == 5
    assert seen == [default] * 5
    assert state() == default


def test_two_autocast_regions_do_not_share_their_cache() -> None:
    runtime = SimRuntime(isolation=TorchIsolation())
    weight = torch.ones(4, 4, requires_grad=True)
    grads: list[Any] = []

    def train() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = torch.mm(torch.ones(4, 4), weight).sum()
            runtime.sleep(1.0)
            loss = loss + torch.mm(torch.ones(4, 4), weight).sum()
            runtime.sleep(1.0)
        grads.append(torch.autograd.grad(loss, weight)[0])

    for i in range(2):
        runtime.spawn(train, name=f"trainer {i}", daemon=False)
    runtime.run()
    assert [grad.tolist() for grad in grads] == [[[8.0] * 4] * 4] * 2


def test_a_killed_task_leaves_no_setting_behind() -> None:
    runtime = SimRuntime(isolation=TorchIsolation())
    default = state()

    def victim() -> None:
        with torch.inference_mode(), torch.autocast("cpu"):
            runtime.event("never").wait()

    task = runtime.spawn(victim, name="victim")
    runtime.call_later(1.0, lambda: runtime.kill(task))
    seen: list[tuple[Any, ...]] = []

    def later() -> None:
        runtime.sleep(2.0)
        seen.append(state())

    runtime.spawn(later, name="later", daemon=False)
    runtime.run()
    assert seen == [default] and state() == default


def test_random_state_and_defaults_belong_to_the_worker() -> None:
    isolation = TorchIsolation()
    runtime = SimRuntime(isolation=isolation)
    network = Network(runtime)
    drawn: dict[str, list[float]] = {"a": [], "b": []}

    def draw(name: str) -> None:
        torch.manual_seed(5)
        if name == "a":
            torch.set_default_dtype(torch.float64)
        for _ in range(3):
            drawn[name].append(torch.rand(1, dtype=torch.float32).item())
            runtime.sleep(1.0)
        assert torch.get_default_dtype() == (torch.float64 if name == "a" else torch.float32)

    outside = torch.get_rng_state()
    for name in drawn:
        worker = Worker(runtime, network, name=name)
        runtime.spawn(draw, name, name="draw", worker=worker, daemon=False)
    runtime.run()
    isolation.close()
    assert torch.equal(torch.get_rng_state(), outside)
    assert torch.get_default_dtype() == torch.float32
    torch.manual_seed(5)
    alone = [torch.rand(1).item() for _ in range(3)]
    torch.set_rng_state(outside)
    assert drawn == {"a": alone, "b": alone}


def test_every_task_has_the_default_device_of_the_run() -> None:
    """The meta device, which every machine has. A task may still choose another for itself."""
    seen: list[tuple[str, str]] = []
    before = torch.get_default_device()
    with quiet_torch("meta"):
        isolation = TorchIsolation()
        runtime = SimRuntime(isolation=isolation)
        worker = Worker(runtime, Network(runtime), name="w")

        def task(name: str, own: str | None) -> None:
            if own is not None:
                torch.set_default_device(own)
            runtime.sleep(1.0)
            seen.append((name, str(torch.zeros(1).device)))

        for name, own in (("a", None), ("b", "cpu"), ("c", None)):
            runtime.spawn(task, name, own, name=name, worker=worker, daemon=False)
        runtime.run()
        isolation.close()
        assert torch.zeros(1).device.type == "meta"
    assert seen == [("a", "meta"), ("b", "cpu"), ("c", "meta")]
    assert torch.get_default_device() == before
    assert torch.zeros(1).device.type == "cpu"
