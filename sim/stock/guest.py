"""Inside a worker process of the engine ``torch``: one worker of a program.

Imported by the process that is copied for every worker, before it is copied.
"""

from __future__ import annotations

import codecs
import contextlib
import gc
import importlib
import io
import logging
import warnings
from typing import Any

from squall.sim.stock import torch_api as native_stock

native_stock.install()

import torch  # noqa: E402
from torch.distributed import rpc  # noqa: E402

import squall.sim.programs.places  # noqa: E402, F401  tells where a thread is in a program
from squall.model.one_process.outcome import Gradients, Outcome, StepOutcome  # noqa: E402
from squall.model.program.acts.kind import kinds  # noqa: E402
from squall.model.program.hooks import retained  # noqa: E402
from squall.model.program.program import exchanged  # noqa: E402
from squall.real.native.here import Here, debug_info  # noqa: E402
from squall.sim.programs.host import Host, place, together  # noqa: E402
from squall.sim.programs.threads import threads_of  # noqa: E402
from squall.sim.programs.trainer import TrainerRun  # noqa: E402
from squall.sim.stock.stacks import Standing, stacks  # noqa: E402

# Once for all copies, what each would otherwise do for itself: imports in the middle of a run,
kinds()
importlib.import_module("torch.distributed.rpc.rref_proxy")
codecs.lookup("unicode_escape")
# and this, which takes 2 ms to clear the caches of every logger that there is.
logging.disable(logging.CRITICAL)

#: the number of a gradient that belongs to no leaf of the program
STRAY = -1


class Guest:
    """A worker's share of a program, and what the coordinator may ask of it.

    ``processor``: the one on which all its threads stay; a change of one page's mapping then
    interrupts no other.
    """

    def __init__(self, fd: int, processor: int) -> None:
        self.host: Host | None = None
        self.outcome = Outcome()
        self.here = Here(fd, self.serve, processor)

    def serve(self, question: tuple[Any, ...]) -> Any:
        what, *args = question
        return getattr(self, f"serve_{what}")(*args)

    def serve_gradients(self, context_id: int) -> Gradients:
        found: Gradients = {}
        try:
            gradients = torch._C._distributed_autograd.get_gradients(context_id)
        except RuntimeError:  # RPC has ended here, or this worker does not know the context
            return found
        assert self.host is not None
        for tensor, gradient in gradients.items():
            number = next((n for n, leaf in self.host.leaves.items() if leaf is tensor), STRAY)
            if gradient.requires_grad:
                number = STRAY
            found[number] = gradient.detach().clone()
        return found

    def serve_debug_info(self) -> dict[str, int]:
        return debug_info()

    def serve_autograd_info(self) -> dict[str, int]:
        """Counters of contexts and passes, also when RPC has ended."""
        return {k: int(v) for k, v in torch._C._distributed_autograd._get_debug_info().items()}

    def serve_collect(self) -> None:
        gc.collect()

    def serve_stacks(self) -> list[Standing]:
        return stacks()

    def run(self) -> None:
        rank, program, shut_down_early, timeout_s = self.here.ask("hello")
        warnings.simplefilter("ignore")
        self.host = host = Host(program, rank, self._on_pass)
        place(native_stock.current_worker(), host)
        names = [f"worker{number}" for number in range(program.workers)]
        self.here.join_group(
            names[rank],
            rank,
            dict(enumerate(names)),
            timeout_s=timeout_s,
            threads=threads_of(program),
        )
        mine = [n for n, trainer in enumerate(program.trainers) if trainer.worker == rank]
        for number in mine:
            for step in range(len(program.trainers[number].steps)):
                self.outcome.steps[number, step] = StepOutcome()
        crash = None
        with contextlib.redirect_stderr(io.StringIO()):
            try:
                for round in range(program.gathers):
                    self.outcome.gathers[rank, round] = rpc.api._all_gather(exchanged(rank, round))
                if mine:
                    together([TrainerRun(host, number, self.outcome).run for number in mine])
            except Exception as error:
                crash = f"{type(error).__name__}: {error}"
        together_still = self.here.ask("done", crash)
        if not shut_down_early:
            host.kept.clear()
            gc.collect()
            together_still = self.here.ask("settle")
        problem = None
        try:
            rpc.shutdown(graceful=together_still)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        for where, tell in host.afterwards.items():
            self.outcome.beside[where] = tell()
        self.here.ask("end", problem, self.serve_outcome())

    def serve_outcome(self) -> tuple[Outcome, dict[int, Any]]:
        """The outcome of this worker's share so far, also while it hangs; and its leaves."""
        leaves: dict[int, Any] = {}
        if self.host is not None:
            leaves = {n: leaf.detach().clone() for n, leaf in self.host.leaves.items()}
            self.outcome.seen = {
                n: sum(leaf.__dict__.get("seen", ())) for n, leaf in self.host.leaves.items()
            }
        self.outcome.retained += retained()
        return self.outcome, leaves

    def _on_pass(self, trainer: int, step: int, context_id: int) -> None:
        self.here.ask("pass", trainer, step, context_id)


def main(fd: int, request: dict[str, Any]) -> None:
    """The entry of a copied process."""
    Guest(fd, request["processor"]).run()
