"""What the ranks of trainings do alike is done once, in the process that they are copies of: PyTorch finds out how each
operator of sharded tensors is sharded, which takes a rank longer than its training, and keeps what it has found.

Only for trainings that are drawn. A mesh that PyTorch keeps there has groups of the rehearsal, which has ended: it becomes
the first equal one that a rank makes.
"""

from __future__ import annotations

import functools
import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from squall.sim.trainings.render import script_text
from squall.sim.trainings.training import Optimizer, Training

_OPTIMIZERS: tuple[Optimizer, ...] = ("SGD", "AdamW")


def rehearse(about: str) -> None:
    """Play all ranks of trainings of a kind (:attr:`Training.kind`), one after the other, over groups that carry nothing."""
    ranks, _, wrapper = about.partition(" ")
    meshes = _Meshes()
    hook = sys.excepthook  # which groups add their rank to
    for optimizer in _OPTIMIZERS:
        text = _text(int(ranks), wrapper, optimizer)
        for rank in range(int(ranks)):
            with warnings.catch_warnings(), torch.random.fork_rng():
                warnings.simplefilter("ignore")
                _play(text, rank, int(ranks))
    sys.excepthook = hook
    meshes.is_over = True


class _Meshes:
    """Those that have been made. An equal one that is made later is what they are from then on: of those of a
    rehearsal that is over, the first one."""

    def __init__(self) -> None:
        self.is_over = False
        self._made: list[Any] = []
        kind: Any = DeviceMesh
        make = kind.__init__

        @functools.wraps(make)
        def wrapped(mesh: Any, *args: Any, **kwargs: Any) -> None:
            make(mesh, *args, **kwargs)
            for each in [each for each in self._made if each == mesh]:
                each.__dict__ = mesh.__dict__
                if self.is_over:
                    self._made.remove(each)
            if not self.is_over:
                self._made.append(mesh)

        kind.__init__ = wrapped


def _text(ranks: int, wrapper: Any, optimizer: Optimizer) -> str:
    plain = Training(ranks=ranks, layers=("linear", "linear"), optimizer=optimizer, steps=2)
    if wrapper in ("fsdp", "hsdp"):
        plain = replace(plain, layers=("linear", "norm", "wide"))
    if wrapper == "ddp":  # whose reducer wants a result of what carries nothing: the hook has one
        plain = replace(plain, layers=("linear", "norm"), options=("hook",))
    if wrapper != "pp x dp":
        return script_text(replace(plain, wrapper=wrapper))
    # Its layers are sharded among pairs; the pipeline itself needs messages that arrive.
    text = script_text(replace(plain, wrapper="fsdp", layers=("wide", "norm")))
    pairs = 'init_device_mesh("cpu", (RANKS // 2, 2), mesh_dim_names=("dp", "pp"))["dp"]'
    return text.replace('init_device_mesh("cpu", (RANKS,))', pairs)


def _play(text: str, rank: int, ranks: int) -> None:
    script: dict[str, Any] = {"__name__": "rehearsal"}
    exec(compile(text, "rehearsal", "exec"), script)
    script.update(compare=_compare, default_hooks=SimpleNamespace(allreduce_hook=_unreduced))
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    script["train"](rank, [])
    dist.destroy_process_group()


def _unreduced(_, bucket):  # type: ignore[no-untyped-def]  # the reducer refuses others
    future: Any = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def _compare(single: Any, model: Any, what: str, whole: bool = False) -> None:
    """Nothing has been reduced, so nothing is equal."""
    for each in model.parameters():
        if whole:
            each.full_tensor()
