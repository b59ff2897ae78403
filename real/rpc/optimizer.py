"""DistributedOptimizer: an optimizer on each worker that owns parameters.

Gradients come from an autograd context, never from ``.grad``. The optimizers that torch runs as
functional twins are run by the same twins here, so the numbers are torch's to the last bit.
(torch/distributed/optim/optimizer.py)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.jit import _state as jit

from squall.real.autograd import api as dist_autograd
from squall.real.process_locks import COMPILING
from squall.real.rpc.calls import rpc_async
from squall.real.rpc.functional_twins import functional_twin
from squall.real.rpc.py_rref import RRef
from squall.real.rpc.state import rpc_state
from squall.real.rpc.wire_names import label_module
from squall.real.worker import current_worker

if TYPE_CHECKING:
    from squall.real.future import Future

label_module(__name__, "optimizer")

logger = logging.getLogger(__name__)

__all__ = ["DistributedOptimizer"]


class _FunctionalLocalOptimizer:
    """One worker's share, stepped through a functional twin: ``.grad`` is never touched."""

    def __init__(
        self, optim_cls: Any, local_params_rref: list[RRef[Any]], *args: Any, **kwargs: Any
    ) -> None:
        self._local_params: list[Tensor] = [rref.local_value() for rref in local_params_rref]
        with COMPILING:
            self.optim = optim_cls(self._local_params, *args, **kwargs)

    def step(self, autograd_ctx_id: int) -> None:
        """One step for the parameters that have a gradient in the context."""
        with rpc_state(current_worker()).optimizer_lock:
            grads = dist_autograd.get_gradients(autograd_ctx_id)
            self.optim.step([grads.get(param) for param in self._local_params])


class _LocalOptimizer:
    """One worker's share, stepped by an ordinary optimizer, which reads ``.grad``."""

    def __init__(
        self, optim_cls: Any, local_params_rref: list[RRef[Any]], *args: Any, **kwargs: Any
    ) -> None:
        self._local_params: list[Tensor] = [rref.local_value() for rref in local_params_rref]
        self.optim = optim_cls(self._local_params, *args, **kwargs)

    def step(self, autograd_ctx_id: int) -> None:
        """One step; the gradients of the context are left in ``.grad``.

        A parameter without a gradient in the context has none during the step either: what an
        earlier step left there is not applied again.
        """
        with rpc_state(current_worker()).optimizer_lock:
            grads = dist_autograd.get_gradients(autograd_ctx_id)
            absent = [(p, p.grad) for p in self._local_params if p not in grads]
            for param, grad in grads.items():
                param.grad = grad
            for param, _ in absent:
                param.grad = None
            try:
                self.optim.step()
            finally:
                for param, grad_before in absent:
                    param.grad = grad_before


def _new_local_optimizer(
    local_cls: Any, optim_cls: Any, local_params_rref: list[RRef[Any]], *args: Any, **kwargs: Any
) -> RRef[Any]:
    return RRef(local_cls(optim_cls, local_params_rref, *args, **kwargs))


def _local_optimizer_step(local_optim_rref: RRef[Any], autograd_ctx_id: int) -> None:
    local_optim_rref.local_value().step(autograd_ctx_id)


def _wait_for_all(futures: list[Future[Any]]) -> list[Any]:
    """The values of all, when all have ended; raises the last error."""
    error: Exception | None = None
    values = []
    for future in futures:
        try:
            values.append(future.wait())
        except Exception as failure:
            error = failure
    if error is not None:
        try:
            raise error
        finally:
            error = None  # it keeps this frame, which would keep it: and all that callers have
    return values


class DistributedOptimizer:
    """Optimizes parameters wherever they are.

    ``optimizer_class`` is made once on each worker that owns some of ``params_rref``, with
    these parameters and ``args`` and ``kwargs``. Steps on one worker are taken one at a time,
    whoever asks for them. Raises what the workers raise.
    """

    def __init__(
        self, optimizer_class: Any, params_rref: Iterable[RRef[Any]], *args: Any, **kwargs: Any
    ) -> None:
        per_worker: dict[Any, list[RRef[Any]]] = {}
        for param in params_rref:
            per_worker.setdefault(param.owner(), []).append(param)
        twin = functional_twin(optimizer_class) if jit._enabled else None
        self.is_functional_optim = twin is not None
        if twin is None:
            logger.warning(
                "%s has no functional counterpart: it is stepped through the .grad of its "
                "parameters",
                optimizer_class,
            )
        local_cls = _LocalOptimizer if twin is None else _FunctionalLocalOptimizer
        optim_cls = optimizer_class if twin is None else twin
        self.remote_optimizers: list[RRef[Any]] = _wait_for_all(
            [
                rpc_async(
                    worker,
                    _new_local_optimizer,
                    args=(local_cls, optim_cls, params, *args),
                    kwargs=kwargs,
                )
                for worker, params in per_worker.items()
            ]
        )

    def step(self, context_id: int) -> None:
        """One step everywhere with the gradients of autograd context ``context_id``.

        Blocks until all workers are done. Raises RuntimeError for an unknown context.
        """
        dist_autograd._is_valid_context(context_id)
        _wait_for_all(
            [
                rpc_async(optimizer.owner(), _local_optimizer_step, args=(optimizer, context_id))
                for optimizer in self.remote_optimizers
            ]
        )
