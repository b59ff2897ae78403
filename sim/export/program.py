"""A program as a script for stock PyTorch.

Each worker is a process, each operation a function, each step an autograd context; what a trainer
does is written out, line by line. The script prints the gradients of each worker after each pass,
a line for each leaf, and what the leaves are at the end.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from squall.model.one_process.flow import forecast
from squall.model.program.hooks import add_leaf_hook
from squall.model.program.operations import initial_values
from squall.model.program.partial_evaluation import statements_of
from squall.model.program.program import Ending, Leaf, Program, Trainer
from squall.real.rpc.constants import DEFAULT_NUM_WORKER_THREADS, DEFAULT_RPC_TIMEOUT_S
from squall.sim.export import text
from squall.sim.export.faults import by_rank, settings_of
from squall.sim.export.parts import Parts
from squall.sim.export.sleeps import sleep_in_leaf
from squall.sim.export.steps import StepText
from squall.sim.export.text import Lines
from squall.sim.programs.threads import threads_of
from squall.sim.scenario import Scenario

#: elements of a leaf that are written one by one
_MOST_ELEMENTS = 64
_RPC = "import torch.distributed.rpc as rpc"
_TESTING = "torch.distributed.rpc._testing"
_AUTOGRAD = "import torch.distributed.autograd as dist_autograd"


def program_script(scenario: Scenario, program: Program, header: list[str]) -> str:
    """The script of a scenario that has a program. ``header``: the lines of its docstring.

    Raises NotPlainError for an operation that has no text outside squall.
    """
    return _ProgramText(scenario, program).script(header)


def step_code(scenario: Scenario, program: Program, steps: Collection[tuple[int, int]]) -> str:
    """What the script says of these steps, as (trainer, step number): the leaves, the functions
    that other workers have for them, and what their trainers do. Raises NotPlainError.
    """
    return _ProgramText(scenario, program).code_of(steps)


class _ProgramText:
    def __init__(self, scenario: Scenario, program: Program) -> None:
        self.scenario = scenario
        self.program = program
        self.parts = Parts()
        self.settings, self.told = settings_of(scenario.faults, scenario.world.rpc_timeout_s)
        self.steps = {
            (trainer, number): StepText(program, trainer, number, self.parts)
            for trainer, number, _ in program.steps
        }

    def script(self, header: list[str]) -> str:
        leaves, leaf_hooks = self._leaves(), self._leaf_hooks()
        for step in self.steps.values():
            step.define()
        trainers = Lines()
        for group in range(len(self.program.endings) + 1):
            for number, trainer in enumerate(self.program.trainers):
                self._trainer(trainers, number, trainer, group)
        run = self._run()
        parts, definitions = self.parts, self.parts.definitions
        for line in ("import os", "import socket", "import torch", _AUTOGRAD, _RPC):
            parts.use(line)
        parts.use("import torch.multiprocessing as mp")
        blocks = [
            self._docstring(header),
            _imports(definitions.imports),
            f"WORLD_SIZE = {self.program.workers}\n\n{leaves}",
        ]
        if parts.keeps:
            blocks.append("#: references that a worker keeps until the end\nkept = []")
        blocks += _definitions(definitions.texts)
        blocks += parts.helpers.values()
        blocks.append(leaf_hooks)
        blocks += [lines.text for lines in parts.functions]
        if parts.methods:
            blocks.append(self._methods())
        blocks += [trainers.text, text.SHOW, text.GRADIENTS, run, text.FREE_PORT, text.MAIN]
        return _joined(blocks)

    def code_of(self, steps: Collection[tuple[int, int]]) -> str:
        """The part of the script that is about some steps."""
        lines = Lines()
        for number, leaf in enumerate(self.program.leaves):
            lines.add(f"leaf{number} = {_tensor(leaf, self.program)}  # on worker{leaf.owner}")
        hooks = self._leaf_hooks()
        before = len(self.parts.functions)
        for place in sorted(steps):
            self.steps[place].define()
        functions = self.parts.functions[before:]
        return "\n\n".join(filter(None, [lines.text, hooks, *(each.text for each in functions)]))

    def _docstring(self, header: list[str]) -> str:
        lines = [*header, *self._hangs(), *self.told]
        return '"""' + "\n".join(lines).replace("\\", "/").rstrip() + '\n"""'

    def _hangs(self) -> list[str]:
        """What the docstring says of steps that never end."""
        found = []
        for trainer, number, _ in self.program.steps:
            unfed = forecast(self.program, trainer, number).unfed
            if unfed:
                name = f"trainer {trainer}, step {number}"
                found += ["", f"It does not end: a backward pass of {name} waits for ever,"]
                found.append(f"since {unfed[0]} gets no gradient.")
        return found

    # -- leaves -----------------------------------------------------------------------------------

    def _leaves(self) -> str:
        lines = Lines()
        program = self.program
        if self.scenario.world.device != "cpu":
            lines.add(f'torch.set_default_device("{self.scenario.world.device}")')
        lines.add("# Each worker uses its own leaves and leaves the others alone.")
        for number, leaf in enumerate(program.leaves):
            lines.add(f"leaf{number} = {_tensor(leaf, program)}  # on worker{leaf.owner}")
        every = ", ".join(f'"leaf{n}": leaf{n}' for n in range(len(program.leaves)))
        owners = dict.fromkeys(f"worker{leaf.owner}" for leaf in program.leaves)
        lines.add("", f"LEAVES = {{{every}}}")
        lines.add("OWNERS = [" + ", ".join(f'"{name}"' for name in sorted(owners)) + "]")
        return lines.text

    def _leaf_hooks(self) -> str:
        lines = Lines()
        for number, leaf in enumerate(self.program.leaves):
            for at, hook in enumerate(leaf.hooks):
                known, names = {"hook": hook}, {"leaf": f"leaf{number}"}
                definitions = self.parts.definitions
                statements, kept = statements_of(add_leaf_hook, known, names, definitions)
                lines.add(*statements)
                if kept is not None:
                    # Hooks on the node of a leaf live as long as the node.
                    lines.add(f"leaf{number}_hook{at or ''} = {kept}")
            sleep_in_leaf(lines, self.parts, leaf, f"leaf{number}")
        return lines.text

    # -- trainers ---------------------------------------------------------------------------------

    def _methods(self) -> str:
        lines = Lines()
        with lines.block("class Functions:"):
            lines.add(
                '"""What is called through a reference to an object of another worker."""', ""
            )
            for name in self.parts.methods:
                lines.add(f"{name} = staticmethod({name})")
        return lines.text

    def _trainer(self, lines: Lines, number: int, trainer: Trainer, group: int) -> None:
        """What a trainer does in a group, if it does anything there."""
        numbers = [at for at, step in enumerate(trainer.steps) if step.group == group]
        steps = [self.steps[number, at] for at in numbers]
        if not steps:
            return
        optimized = trainer.optimizer.leaves if trainer.optimizer is not None else ()
        leaves = dict.fromkeys([*optimized, *(n for step in steps for n in step.references)])
        keeps = any(step.keeps for step in steps)
        if lines.lines:
            lines.add("", "")
        with lines.block(f"def {_trainer_name(number, group)}():"):
            lines.add(f'"""On worker{trainer.worker}."""')
            for leaf in leaves:
                owner = self.program.leaves[leaf].owner
                made = f"rpc.RRef(leaf{leaf})"
                if owner != trainer.worker:
                    self.parts.helper("get_leaf", text.GET_LEAF)
                    made = f'rpc.remote("worker{owner}", get_leaf, args=("leaf{leaf}",))'
                lines.add(f"leaf{leaf}_rref = {made}")
            for worker in dict.fromkeys(w for step in steps for w in step.objects):
                lines.add(f'on_worker{worker} = rpc.remote("worker{worker}", Functions)')
            if trainer.optimizer is not None:
                self.parts.use("from torch.distributed.optim import DistributedOptimizer")
                refs = ", ".join(f"leaf{leaf}_rref" for leaf in optimized)
                lr = trainer.optimizer.lr
                lines.add(f"optimizer = DistributedOptimizer(torch.optim.SGD, [{refs}], lr={lr!r})")
            if keeps:
                lines.add("kept_by_trainer = {}")
            self._run_steps(lines, number, trainer, dict(zip(numbers, steps, strict=True)))
            if keeps:
                with lines.block("for name, rref in kept_by_trainer.items():"):
                    lines.add("value = rref.to_here()")
                    with lines.block(
                        "for tensor in value if isinstance(value, tuple) else [value]:"
                    ):
                        lines.add(
                            'print(show(f"{name}, kept", tensor) + "\\n", end="", flush=True)'
                        )

    def _run_steps(
        self, lines: Lines, number: int, trainer: Trainer, steps: dict[int, StepText]
    ) -> None:
        self.parts.helper("run_step", text.RUN_STEP)
        together = trainer.overlap and len(steps) > 1
        names = []
        for at, step in steps.items():
            told = f"trainer {number}, step {at}"
            passed = ", ".join([step.name, *step.arguments])
            first = f'run_step("{told}", {passed}{", True" if step.retry else ""})'
            again = f'run_step("{told}, again", {passed}{", False" if step.retry else ""})'
            if not together:
                self._run_step(lines, first, again, retry=step.step.retry)
                continue
            names.append(f"step{at}")
            with lines.block(f"def step{at}():"):
                self._run_step(lines, first, again, retry=step.step.retry)
            lines.add("")
        if together:
            self.parts.use_together()
            lines.add(f"together([{', '.join(names)}])")

    def _run_step(self, lines: Lines, first: str, again: str, *, retry: bool) -> None:
        if not retry:
            lines.add(first)
            return
        with lines.block(f"if not {first}:"):
            lines.add(again)

    # -- a worker ---------------------------------------------------------------------------------

    def _run(self) -> str:
        lines = Lines()
        with lines.block("def run(rank):"):
            lines.add("torch.set_num_threads(1)")
            self._begin(lines)
            for round in range(self.program.gathers):
                lines.add(f"given = rpc.api._all_gather({round * 1000} + rank)")
                lines.add(
                    f'print(f"exchange {round}, worker{{rank}}: {{sorted(given.items())}}\\n", end="", flush=True)'
                )
            self._run_trainers(lines, 0)
            for group, ending in enumerate(self.program.endings, 1):
                self._next_group(lines, ending)
                self._run_trainers(lines, group)
            lines.add("rpc.shutdown()")
            owners = [leaf.owner for leaf in self.program.leaves]
            lines.add(f"owners = {owners}")
            with lines.block("for owner, (name, leaf) in zip(owners, LEAVES.items()):"):
                with lines.block("if owner == rank:"):
                    lines.add(
                        'print(show(f"worker{rank}, at the end, {name}", leaf) + "\\n", end="", flush=True)'
                    )
        return lines.text

    def _run_trainers(self, lines: Lines, group: int) -> None:
        """Run the trainers in a group, each on its worker."""
        homes: dict[int, list[str]] = {}
        for number, trainer in enumerate(self.program.trainers):
            if any(step.group == group for step in trainer.steps):
                homes.setdefault(trainer.worker, []).append(_trainer_name(number, group))
        for worker, names in sorted(homes.items()):
            with lines.block(f"if rank == {worker}:"):
                if len(names) == 1:
                    lines.add(f"{names[0]}()")
                else:
                    self.parts.use_together()
                    lines.add(f"together([{', '.join(names)}])")

    def _next_group(self, lines: Lines, ending: Ending) -> None:
        """Leave the group, and meet again in another one."""
        if self.parts.keeps and not ending.keeps:
            lines.add("kept.clear()")
        if ending.graceful:
            limit = f"timeout={ending.timeout_s!r}" if ending.timeout_s else ""
            lines.add(f"rpc.shutdown({limit})")
        else:
            lines.add(f"rpc.api._wait_all_workers({ending.timeout_s!r})")
            if ending.quiet_s:
                self.parts.use("import time")
                lines.add(f"time.sleep({ending.quiet_s!r})")
            lines.add("rpc.shutdown(graceful=False)")
        self._begin(lines)

    def _begin(self, lines: Lines) -> None:
        """Join the group, with the settings that the scenario asks for."""
        settings, faulty = self.settings, self.settings.is_faulty
        for rank, delay_s in sorted(settings.start_delays_s.items()):
            self.parts.use("import time")
            with lines.block(f"if rank == {rank}:"):
                lines.add(f"time.sleep({delay_s!r})  # it starts later than the others")
        options: dict[str, str] = {}
        if faulty or settings.rpc_timeout_s != DEFAULT_RPC_TIMEOUT_S:
            options["rpc_timeout"] = repr(settings.rpc_timeout_s)
        least = threads_of(self.program)
        if faulty or settings.threads or least != DEFAULT_NUM_WORKER_THREADS:
            threads = by_rank(settings.threads, least)
            options["num_worker_threads"] = threads
        init = ['f"worker{rank}"', "rank=rank", "world_size=WORLD_SIZE"]
        make = "rpc.TensorPipeRpcBackendOptions"
        if faulty:
            self.parts.use(f"import {_TESTING}  # it has the backend that fails on purpose")
            lines.add("faulty = rpc.backend_registry.BackendType.FAULTY_TENSORPIPE")
            init.insert(1, "backend=faulty")
            make = "rpc.backend_registry.construct_rpc_backend_options"
            options["init_method"] = '"env://"'
            options["messages_to_fail"] = by_rank(settings.failing, [])
            options["messages_to_delay"] = by_rank(settings.delays_s, {})
            options["num_fail_sends"] = repr(settings.fail_sends)
        if options:
            given = [f"{name}={value}" for name, value in options.items()]
            lines.call(f"options = {make}(", ["faulty", *given] if faulty else given)
            init.append("rpc_backend_options=options")
        lines.call("rpc.init_rpc(", init)


def _trainer_name(number: int, group: int) -> str:
    """Of the function that runs the steps of a trainer in a group."""
    return f"trainer{number}" + (f"_group{group}" if group else "")


def _tensor(leaf: Leaf, program: Program) -> str:
    """An expression for the leaf as the program starts."""
    values: Any = initial_values(leaf, program.mode).detach()
    grad = ", requires_grad=True" if leaf.requires_grad else ""
    dtype = f"torch.{leaf.dtype}"
    if values.numel() == 0 and leaf.shape:
        return f"torch.zeros({', '.join(map(str, leaf.shape))}, dtype={dtype}{grad})"
    if values.numel() <= _MOST_ELEMENTS:
        return f"torch.tensor({values.tolist()!r}, dtype={dtype}{grad})"
    count, seed = values.numel(), leaf.seed
    integers = f"((torch.arange({count}, dtype=torch.float64) + {seed}) * 5 + {seed}) % 7 - 3"
    if program.mode == "float":
        integers = f"(1 + ({integers}) / 6).to({dtype})"
        if values.is_complex():
            integers = f"{integers} * (1 + 0.5j)"
    made = f"({integers}).reshape({', '.join(map(str, leaf.shape))})"
    return f"{made}.requires_grad_()" if leaf.requires_grad else made


def _imports(lines: dict[str, None]) -> str:
    """Import lines in the usual order: the standard library, then torch."""
    ours = sorted(line for line in lines if " torch" in line)
    standard = sorted(line for line in lines if " torch" not in line)
    return "\n".join([*standard, "", *ours])


def _definitions(texts: dict[str, str]) -> list[str]:
    return list(texts.values())


def _joined(blocks: list[str]) -> str:
    """Blocks two lines apart."""
    return "\n\n\n".join(block.strip("\n") for block in blocks if block.strip()) + "\n"
