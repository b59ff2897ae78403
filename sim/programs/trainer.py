"""A trainer of a program, on its worker: its steps, and what it has for all of them."""

from __future__ import annotations

import torch

from squall.model.program.program import source
from squall.real.rpc import api as rpc
from squall.real.rpc.optimizer import DistributedOptimizer
from squall.sim.programs.host import find_host, find_leaf, together
from squall.sim.programs.step import StepRun
from squall.sim.programs.trainer_state import TrainerState


class TrainerRun(TrainerState):
    """One trainer, while it runs its steps of one RPC group."""

    def run(self, group: int | None = None) -> None:
        """Run the steps of that group; None: all, for a program that has one group only."""
        steps = [
            StepRun(self, number, step)
            for number, step in enumerate(self.trainer.steps)
            if group is None or step.group == group
        ]
        if not steps:
            return
        self._refer()
        if self.trainer.optimizer is not None:
            self.optimizer = DistributedOptimizer(
                torch.optim.SGD,
                [self.leaf_refs[leaf] for leaf in self.trainer.optimizer.leaves],
                lr=self.trainer.optimizer.lr,
            )
        if self.trainer.overlap:
            together([step.run for step in steps])
        else:
            for step in steps:
                step.run()
        del steps
        for key, rref in self.kept.items():
            try:
                value = rref.to_here()
            except RuntimeError as error:  # its operation raised, and nobody fetched it before
                self.outcome.kept_errors[key] = str(error)
                continue
            outputs = value if isinstance(value, tuple) else (value,)
            self.outcome.kept[key] = tuple(output.detach().clone() for output in outputs)
        self.kept.clear()
        self.leaf_refs.clear()
        self.host_refs.clear()
        self.optimizer = None

    def _refer(self) -> None:
        """Make the references that the steps and the optimizer need."""
        leaves = dict.fromkeys(
            self.trainer.optimizer.leaves if self.trainer.optimizer is not None else ()
        )
        for step in self.trainer.steps:
            for index, op in enumerate(step.ops):
                if op.call.startswith("helper"):
                    self.host_refs[op.worker] = None
                for input in op.inputs:
                    is_leaf, number = source(self.program, index, input)
                    if is_leaf and (
                        input.how != "value"
                        or self.program.leaves[number].owner not in (op.worker, self.host.worker)
                        or (op.builtin and self.program.leaves[number].owner != self.host.worker)
                    ):
                        leaves[number] = None
        for number in leaves:
            owner = self.program.leaves[number].owner
            if owner == self.host.worker:
                self.leaf_refs[number] = rpc.RRef(self.host.leaves[number])
            else:
                self.leaf_refs[number] = rpc.remote(owner, find_leaf, args=(number,))
        for worker in self.host_refs:
            self.host_refs[worker] = rpc.remote(worker, find_host)
