"""Mistakes that people make in trainings: changes of the scripts that are drawn, as these are started."""

from __future__ import annotations

import re
from typing import NamedTuple

from squall.sim.search.mutants.mutant import Mutant

RANK = 100


class Mistake(NamedTuple):
    """``old`` is a regular expression of what stands there; ``new`` what is written instead."""

    old: str
    new: str

    def made_in(self, text: str) -> str | None:
        """The script with it; None where it cannot be made."""
        changed, times = re.subn(self.old, self.new, text, flags=re.MULTILINE)
        return changed if times else None

    def planted(self, name: str) -> Mutant:
        """In the processes that run the script."""
        made = f"__import__('re').sub({self.old!r}, {self.new!r}, script.text, flags={int(re.M)})"
        return Mutant(
            name="user-" + re.sub(r"\W+", "-", name),
            wrong=name,
            place="squall.sim.stock.script:ScriptProcesses.__init__",
            old="    self.script = script\n",
            new=f"    self.script = script = __import__('dataclasses').replace(script, text={made})\n",
            groups=True,
        )


#: by what is wrong
MISTAKES = {
    "wrong divisor": Mistake(r"div_\(RANKS\)", "div_(RANKS + 1)"),
    "scaled twice": Mistake(
        r"^( +)loss_of\(model, step, round, share\)\.backward",
        r"\1(loss_of(model, step, round, share) / 2).backward",
    ),
    "gradients by another operator": Mistake(
        r"all_reduce\(each\.grad, ", "all_reduce(each.grad, dist.ReduceOp.MAX, "
    ),
    "gradients of the first layer left out": Mistake(
        r"^( +)for each in model\.parameters\(\):\n +if each\.grad is not None:\n( +)works",
        r"\1for each in list(model.parameters())[1:]:\n\1    if each.grad is not None:\n\2works",
    ),
    "a call missing on one rank": Mistake(
        r"next\((talk_\d), None\)", r"next(\1, None) if rank else None"
    ),
    "a barrier on rank 0 alone": Mistake(
        r"^        for each in optimizers:\n            each\.zero_grad",
        "        if rank == 0:\n            dist.barrier()\n        for each in optimizers:\n            each.zero_grad",
    ),
    "another root on one rank": Mistake(
        r"src=\d", "src=AMONG[0] if rank == AMONG[0] else AMONG[1]"
    ),
    "another destination on one rank": Mistake(
        r"dst=\d", "dst=AMONG[0] if rank == AMONG[0] else AMONG[1]"
    ),
    "another type on one rank": Mistake(
        r"mine = values\[place\]\.clone\(\)$",
        "mine = values[place].clone() if place else values[place].to(torch.int32)",
    ),
    "another size on one rank": Mistake(
        r"mine = values\[place\]\.clone\(\)$", "mine = values[place].clone()[: 3 if place else 2]"
    ),
    "another operator on one rank": Mistake(
        r"(all_reduce|reduce_scatter_tensor)\((.*), op=dist\.ReduceOp\.(SUM|PRODUCT)",
        r"\1(\2, op=dist.ReduceOp.\3 if place else dist.ReduceOp.MIN",
    ),
    "a buffer used before the wait": Mistake(
        r"^(    work = dist\.all_reduce\(.*)$", r"\1\n    mine.add_(1)"
    ),
    "what is sent is written to before it left": Mistake(
        r"^(    works = \[dist\.isend\(mine.*)$", r"\1\n    mine.add_(1)"
    ),
    "never waited for": Mistake(
        r"    for work in works:\n        work\.wait\(\)\n    expect", "    expect"
    ),
    "the wrong work waited for": Mistake(
        r"    for work in works:\n        work\.wait\(\)\n    expect",
        "    works[0].wait()\n    expect",
    ),
    "gradients not waited for": Mistake(
        r"        for work in works:\n            work\.wait\(\)\n", ""
    ),
    "never synchronized": Mistake(
        r"nullcontext\(\) if round == ROUNDS - 1 else", "nullcontext() if False else"
    ),
    "never reduced": Mistake(
        r"set_requires_gradient_sync\(.*\)", "set_requires_gradient_sync(False)"
    ),
    "unused parameters not looked for": Mistake(
        "find_unused_parameters=True", "find_unused_parameters=False"
    ),
    "a layer used by one rank alone": Mistake(
        "if step % 2 == 0 else x", "if dist.get_rank() == 0 else x"
    ),
    "a step on one rank": Mistake(
        r"each\.step\(\)$", "each.step() if rank == 0 or each is optimizers[0] else None"
    ),
    "a rank has a batch less": Mistake(
        r"for step in range\(STEPS\)", "for step in range(STEPS - (rank == 1))"
    ),
    "sends that wait for each other": Mistake(
        r"works = \[dist\.isend\(mine, after, group=group\), ",
        "dist.send(mine, after, group=group); works = [",
    ),
    "another tag": Mistake(
        r"irecv\(found, before, group=group\)", "irecv(found, before, group=group, tag=1)"
    ),
    "from the wrong rank": Mistake(
        r"AMONG\[place - 1\]$", "AMONG[(place + 1) % len(AMONG)] if place else AMONG[-1]"
    ),
    "any source taken for the next": Mistake(
        r"found\[dist\.recv\(one, group=group\)\] = one",
        "dist.recv(one, group=group); found[[each for each in AMONG if each not in (rank, *found)][0]] = one",
    ),
    "groups made in another order": Mistake(
        r"groups = \[(dist\.new_group\(\[[^]]*\]\)), (dist\.new_group\(\[[^]]*\]\))\]",
        r"groups = [\1, \2] if dist.get_rank() else [\2, \1][::-1]",
    ),
    "a group without a member": Mistake(
        r"(if step == \d and rank in \[.*\]):", r"\1 and rank != 0:"
    ),
    "buffers that are not sent": Mistake(
        r"(class Centered[\s\S]*DistributedDataParallel\(copy\.deepcopy\(single\))",
        r"\1, broadcast_buffers=False",
    ),
    "the target for the wrong stage": Mistake(r"if \d in mine else \{\}", "if 0 in mine else {}"),
    "stages in another order": Mistake(
        r"range\(place, (\d), (\d)\)", r"range(\2 - 1 - place, \1, \2)"
    ),
    "weights of each rank's own": Mistake(
        r"manual_seed\(SEED", "manual_seed(dist.get_rank() + SEED"
    ),
    "a hook that rounds": Mistake("allreduce_hook", "fp16_compress_hook"),
    "a hook that does not divide": Mistake(
        r"default_hooks\.allreduce_hook\)",
        "lambda _, bucket: dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0]))",
    ),
    "parameters not sent after a step": Mistake(
        r"^    optimizers = \[(.*ZeroRedundancyOptimizer.*)$",
        r"    ZeroRedundancyOptimizer._sync_params = lambda self: None\n    optimizers = [\1",
    ),
    "swapped collectives": Mistake(
        r"^( +)for each in model\.parameters\(\):\n( +if each\.grad is not None:\n +)(works|dist)",
        r"\1for each in list(model.parameters())[:: 1 if rank else -1]:\n\2\3",
    ),
    "another order in two groups": Mistake(
        r"^( +)if (step == \d) and (rank in \[[^]]*\]:\n(?: +.*\n){3})\1if \2 and (rank in \[[^]]*\]:\n(?: +.*\n){3})",
        r"\1for turn in (0, 1)[:: 1 if rank else -1]:\n\1 if turn == 0 and \2 and \3\1 if turn == 1 and \2 and \4",
    ),
    "no_sync missing on one rank": Mistake(
        r"nullcontext\(\) if round == ROUNDS - 1 else",
        r"nullcontext() if round == ROUNDS - 1 or rank == 0 else",
    ),
    "no_sync missing": Mistake(
        r"nullcontext\(\) if round == ROUNDS - 1 else", r"nullcontext() if True else"
    ),
    "reduced in each round": Mistake(
        r"set_requires_gradient_sync\(.*\)$", "set_requires_gradient_sync(True)"
    ),
    "sent in the order of a dict": Mistake(
        r"^( +)mirror, share = single",
        r"\1for _, each in sorted(single.state_dict().items(), reverse=rank == 0):\n\1    dist.broadcast(each, 0)\n\1mirror, share = single",
    ),
    "group names by rank": Mistake(
        r"groups = \[dist\.new_group\((\[[^]]*\])\)",
        r"groups = [dist.new_group(\1, use_local_synchronization=dist.get_rank() > 0)",
    ),
    "an extra call": Mistake(
        r'^( +)compare\(mirror, model, "gradient"\)',
        r'\1if rank == 1:\n\1    dist.all_reduce(torch.zeros(1))\n\1compare(mirror, model, "gradient")',
    ),
}

MUTANTS = tuple(mistake.planted(name) for name, mistake in MISTAKES.items())
