"""Steps of optimizers, and methods of users, that must not be mixed with others."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 92
_LOCKED = (
    "        with rpc_state(current_worker()).optimizer_lock:\n"
    "            grads = dist_autograd.get_gradients(autograd_ctx_id)\n"
)
_STEP = (
    "            try:\n"
    "                self.optim.step()\n"
    "            finally:\n"
    "                for param, grad_before in absent:\n"
    "                    param.grad = grad_before\n"
)


def _text(lines: str) -> str:
    """As it stands in the source of a method, which is looked at without its indentation."""
    return "".join(line[4:] for line in lines.splitlines(keepends=True))


MUTANTS = (
    Mutant(
        name="step-without-a-lock",
        wrong="steps of optimizers on one worker are taken at the same time",
        place="rpc.optimizer:_LocalOptimizer.step",
        old="with rpc_state(current_worker()).optimizer_lock:",
        new="if True:",
    ),
    Mutant(
        name="lock-of-each-optimizer",
        wrong="each optimizer has a lock of its own, though they share parameters",
        place="rpc.optimizer:_LocalOptimizer.step",
        old="with rpc_state(current_worker()).optimizer_lock:",
        new='with self.__dict__.setdefault("lock", current_worker().runtime.lock()):',
    ),
    Mutant(
        name="lock-of-each-context",
        wrong="steps in different contexts do not wait for each other",
        place="rpc.optimizer:_LocalOptimizer.step",
        old="with rpc_state(current_worker()).optimizer_lock:",
        new="with rpc_state(current_worker()).__dict__.setdefault("
        '("lock", autograd_ctx_id), current_worker().runtime.lock()):',
    ),
    Mutant(
        name="gradients-set-before-the-lock",
        wrong="an optimizer sets the gradients of its step before it is its turn",
        place="rpc.optimizer:_LocalOptimizer.step",
        old=_text(
            _LOCKED
            + "            absent = [(p, p.grad) for p in self._local_params if p not in grads]\n"
            "            for param, grad in grads.items():\n"
            "                param.grad = grad\n"
        ),
        new=_text(
            "        grads = dist_autograd.get_gradients(autograd_ctx_id)\n"
            "        absent = [(p, p.grad) for p in self._local_params if p not in grads]\n"
            "        for param, grad in grads.items():\n"
            "            param.grad = grad\n"
            "        with rpc_state(current_worker()).optimizer_lock:\n"
        ),
    ),
    Mutant(
        name="lock-until-the-step",
        wrong="the lock is held while gradients are set, and not during the step",
        place="rpc.optimizer:_LocalOptimizer.step",
        old=_text(_STEP),
        new=_text("".join(line[4:] for line in _STEP.splitlines(keepends=True))),
    ),
    Mutant(
        name="failed-step-keeps-the-lock",
        wrong="a step that raises keeps the lock: nobody steps on that worker any more",
        place="rpc.optimizer:_LocalOptimizer.step",
        old="with rpc_state(current_worker()).optimizer_lock:\n",
        new="if rpc_state(current_worker()).optimizer_lock.acquire():\n",
    ),
    Mutant(
        name="gradients-restored-only-after-success",
        wrong="a step that raises loses what a parameter had in .grad",
        place="rpc.optimizer:_LocalOptimizer.step",
        old=_text(_STEP),
        new=_text(
            "            self.optim.step()\n"
            "            for param, grad_before in absent:\n"
            "                param.grad = grad_before\n"
        ),
    ),
    Mutant(
        name="gradients-added-to-the-last",
        wrong="the gradients of a step are added to those of the step before",
        place="rpc.optimizer:_LocalOptimizer.step",
        old="            param.grad = grad\n",
        new="            param.grad = grad if param.grad is None else param.grad + grad\n",
    ),
    Mutant(
        name="gradients-by-position",
        wrong="a functional step takes the gradients in the order in which they came",
        place="rpc.optimizer:_FunctionalLocalOptimizer.step",
        old="[grads.get(param) for param in self._local_params]",
        new="(list(grads.values()) + [None] * 9)[: len(self._local_params)]",
    ),
    Mutant(
        name="functional-step-without-a-lock",
        wrong="functional steps of optimizers on one worker are taken at the same time",
        place="rpc.optimizer:_FunctionalLocalOptimizer.step",
        old="with rpc_state(current_worker()).optimizer_lock:",
        new="if True:",
    ),
    Mutant(
        name="step-not-waited-for",
        wrong="a step is over as soon as all workers have been asked for it",
        place="rpc.optimizer:DistributedOptimizer.step",
        old="    _wait_for_all(\n",
        new="    list(\n",
    ),
    Mutant(
        name="first-owner-stepped",
        wrong="only the first of the workers that own parameters takes a step",
        place="rpc.optimizer:DistributedOptimizer.step",
        old="for optimizer in self.remote_optimizers",
        new="for optimizer in self.remote_optimizers[:1]",
    ),
    Mutant(
        name="last-parameter-of-a-worker",
        wrong="of several parameters of one worker only the last is optimized",
        place="rpc.optimizer:DistributedOptimizer.__init__",
        old="per_worker.setdefault(param.owner(), []).append(param)",
        new="per_worker[param.owner()] = [param]",
    ),
    Mutant(
        name="optimizers-of-a-class-are-one",
        wrong="the second optimizer of a class on a worker is the first one",
        place="rpc.optimizer:_new_local_optimizer",
        old="return RRef(local_cls(optim_cls, local_params_rref, *args, **kwargs))",
        new="known = current_worker().locals\n"
        "    if (optim_cls, len(local_params_rref)) not in known:\n"
        "        made = local_cls(optim_cls, local_params_rref, *args, **kwargs)\n"
        "        known[optim_cls, len(local_params_rref)] = made\n"
        "    return RRef(known[optim_cls, len(local_params_rref)])",
    ),
    Mutant(
        name="steps-one-after-the-other",
        wrong="a worker is asked for its step only when the one before has ended, or not at all",
        place="rpc.optimizer:_wait_for_all",
        old="            error = failure\n",
        new="            error = failure\n            break\n",
    ),
    Mutant(
        name="step-that-failed-is-taken-again",
        wrong="a step that raises is taken a second time",
        place="rpc.optimizer:_local_optimizer_step",
        old="    local_optim_rref.local_value().step(autograd_ctx_id)\n",
        new="    try:\n        local_optim_rref.local_value().step(autograd_ctx_id)\n"
        "    except Exception:\n        local_optim_rref.local_value().step(autograd_ctx_id)\n",
    ),
    Mutant(
        name="step-taken-twice",
        wrong="a step is taken once more if others wait for their turn",
        place="rpc.optimizer:_LocalOptimizer.step",
        old="            self.optim.step()\n",
        new="            self.optim.step()\n"
        "            if rpc_state(current_worker()).optimizer_lock._waiters:\n"
        "                self.optim.step()\n",
    ),
    Mutant(
        name="failed-local-step-loses-grad",
        wrong="a step that raises does not put gradients back that it has set aside",
        place="rpc.optimizer:_LocalOptimizer.step",
        old="finally:",
        new="except ZeroDivisionError:\n            raise\n        else:",
    ),
)
