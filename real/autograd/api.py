"""torch.distributed.autograd, for the worker of the running task
(torch/distributed/autograd/__init__.py, torch/csrc/distributed/autograd/init.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex, SupportsInt

from torch import Tensor

from squall.real.autograd.container import DistAutogradContainer
from squall.real.autograd.context import DistAutogradContext
from squall.real.autograd.dist_engine import DistEngine
from squall.real.future import plain_errors
from squall.real.worker import current_worker

if TYPE_CHECKING:
    from squall.real.ids import ContextId, WorkerId

__all__ = ["DistAutogradContext", "backward", "context", "get_gradients", "is_available"]

_NOT_INITIALIZED = "Need to initialize distributed autograd using torch.distributed.autograd.init()"


def is_available() -> bool:
    return True


class context:  # noqa: N801 - torch's name
    """Records, for distributed autograd, what the ``with`` block computes.

    ``with context() as context_id:``. Contexts of one task do not nest: entering raises
    RuntimeError then. Leaving releases the context on all workers that it reached.
    """

    def __enter__(self) -> ContextId:
        self.autograd_context = _new_context()
        return self.autograd_context._context_id()

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _release_context(self.autograd_context._context_id())


def backward(contextId: Any, roots: Any, retain_graph: Any = False) -> None:  # noqa: N803
    """Run a backward pass from scalar ``roots`` over all workers of a context, and wait for it.

    Gradients go to the context, never to ``.grad``. Raises TypeError for arguments of other
    types, RuntimeError for unfit roots, an unknown context and anything that fails on the way.
    """
    if not _is_int(contextId) or not _is_tensors(roots):
        shown = [repr(contextId), repr(roots)]
        if retain_graph is not False:
            shown.append(repr(retain_graph))
        raise _incompatible(
            "backward",
            "(contextId: typing.SupportsInt | typing.SupportsIndex, "
            "roots: collections.abc.Sequence[torch.Tensor], retain_graph: bool = False) -> None",
            shown,
        )
    _, engine = _parts()
    with plain_errors():
        engine.execute(int(contextId), roots, bool(retain_graph))


def get_gradients(context_id: Any) -> dict[Tensor, Tensor]:
    """The gradients of a context so far, by variable: the live tensors.

    Raises RuntimeError if there is no such context.
    """
    _check_context_id("get_gradients", context_id, "dict")
    return _container().retrieve_context(int(context_id)).get_gradients()


def _new_context() -> DistAutogradContext:
    return _container().new_context()


def _current_context() -> DistAutogradContext:
    return _container().current_context()


def _retrieve_context(context_id: ContextId) -> DistAutogradContext:
    return _container().retrieve_context(context_id)


def _release_context(context_id: ContextId) -> None:
    _container().release_context(context_id)


def _is_valid_context(context_id: ContextId) -> None:
    """Raises RuntimeError if the context does not exist; torch too returns nothing."""
    _container().is_valid_context(context_id)


def _get_max_id() -> int:
    return _container().get_max_id()


def _get_debug_info() -> dict[str, int]:
    return _parts()[1].get_debug_info()


def _init(worker_id: WorkerId) -> None:
    """Give the worker contexts and an engine. Raises RuntimeError if it has another id."""
    worker = current_worker()
    if worker.container is None:
        worker.container = worker.new_container(worker_id)
        worker.engine = DistEngine(worker, worker.container)
    elif worker.container.worker_id != worker_id:
        raise RuntimeError(
            f"Container is already initialized with worker_id: {worker.container.worker_id}, "
            f"cannot initialize with different worker_id: {worker_id}"
        )


def _container() -> DistAutogradContainer:
    container = current_worker().container
    if container is None:
        raise RuntimeError(_NOT_INITIALIZED)
    return container


def _parts() -> tuple[DistAutogradContainer, DistEngine]:
    container = _container()
    engine = current_worker().engine
    if engine is None:
        raise RuntimeError(_NOT_INITIALIZED)
    return container, engine


def _is_int(value: object) -> bool:
    if type(value) is int:  # a protocol takes its time
        return True
    return isinstance(value, SupportsInt | SupportsIndex) and not isinstance(value, str | float)


def _is_tensors(roots: object) -> bool:
    return (
        (type(roots) is list or isinstance(roots, Sequence))
        and not isinstance(roots, str | bytes)
        and all(isinstance(root, Tensor) for root in roots)
    )


def _check_context_id(name: str, context_id: object, returns: str) -> None:
    if not _is_int(context_id):
        raise _incompatible(
            name,
            f"(context_id: typing.SupportsInt | typing.SupportsIndex) -> {returns}",
            [repr(context_id)],
        )


def _incompatible(name: str, signature: str, shown: list[str]) -> TypeError:
    return TypeError(
        f"{name}(): incompatible function arguments. The following argument types are "
        f"supported:\n    1. {signature}\n\nInvoked with: {', '.join(shown)}"
    )
