"""The run of a script that a command line asks for."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput, NoSuchOption
from squall.sim.cli.faults import NamedFaults
from squall.sim.names import BackendName, Device, EngineName
from squall.sim.world.busy_loop import DEFAULT_LIMIT_S
from squall.sim.world.compute import MEASURED
from squall.sim.world.latency import DEFAULT_LATENCY

if TYPE_CHECKING:
    from squall.sim.faults.plan import Plan
    from squall.sim.scenario import Scenario, Script

#: what the name of a file with the command lines of all ranks ends with
RANKS_SUFFIX = ".toml"
#: stands between the command lines of ranks
NEXT = ":"


def is_script(text: str) -> bool:
    """Whether a script is meant, by those commands that take a scenario as well."""
    return Path(parsers.no_option(text)).suffix in (".py", RANKS_SUFFIX)


def refuse_for_scripts(text: str, given: Mapping[str, object], args: Sequence[str] | None) -> None:
    """Raises :class:`BadInput` for what only scripts have, beside a scenario."""
    for name, value in given.items():
        if value is not None:
            raise BadInput(name, str(value), f"is for a script, and {text!r} is none")
    for word in args or ():
        if word.startswith("-"):
            raise NoSuchOption(word)
        raise BadInput("ARGS", word, f"arguments are for a script, and {text!r} is none")


@dataclass(frozen=True, kw_only=True)
class ScriptRun:
    """What was asked for. ``workers`` None leaves it to the script. ``script`` is its file, or one that
    says what each rank runs; ``args`` may hold the command lines of further ranks."""

    script: Path
    args: tuple[str, ...] = ()
    workers: int | None = None
    seed: int = 0
    latency: str = DEFAULT_LATENCY
    device: Device = "cpu"
    engine: EngineName = "port"
    faults: NamedFaults | None = None
    check: bool = True
    wall_limit: float = DEFAULT_LIMIT_S
    simulate: tuple[str, ...] = ()
    share: tuple[str, ...] = ()
    compute: str = ""
    go_on: bool = False
    backend: BackendName = "gloo"
    replicas: bool = True
    #: as of World
    links: str = ""
    algorithms: str = ""

    def __post_init__(self) -> None:
        """Raises :class:`BadInput` for a profile of faults without a number of workers, before anything is imported
        that takes its time."""
        if self.faults is None or self.faults.profile is None or self.workers is not None:
            return
        if NEXT not in self.args and self.script.suffix != RANKS_SUFFIX:
            text = self.faults.text
            raise BadInput("--faults", text, f"{text} needs the number of workers: give --workers")

    def scenario(self) -> Scenario:
        """The script as it is now, in this world. Raises :class:`BadInput`."""
        parsers.device_of(self.engine, self.device)
        from squall.sim.scenario import Scenario, World

        for package in self.simulate:
            if package in self.share:
                raise BadInput("--share", package, f"--simulate {package} is given too")
        compute = "" if self.compute == MEASURED else self.compute
        script = replace(
            self._read(),
            simulate=self.simulate,
            share=self.share,
            compute=compute,
            go_on=self.go_on,
            backend=self.backend,
            replicas=self.replicas,
        )
        world = World(
            latency=self.latency,
            faults=self._plan(script),
            device=self.device,
            links=self.links,
            algorithms=self.algorithms,
        )
        return Scenario(work=script, seed=self.seed, world=world, engine=self.engine)

    def measured(self, scenario: Scenario) -> tuple[ScriptRun, Scenario]:
        """Both with durations of operators, if they are to be measured. The engine has to be ready."""
        if self.compute != MEASURED:
            return self, scenario
        from squall.sim.scenarios.measured import measured

        found = measured(scenario)
        assert found.script is not None, "it was there before"
        return replace(self, compute=found.script.compute), found

    def _read(self) -> Script:
        from squall.sim.scripts.ranks import lines_of, placeholder_in
        from squall.sim.scripts.read_script import read_script

        if self.script.suffix == RANKS_SUFFIX:
            script = self._read_ranks()
        else:
            args, *others = _parts(self.args)
            rest = [(parsers.script(words[0]), tuple(words[1:])) for words in others]
            self._check_number(1 + len(rest) if rest else None)
            script = read_script(
                self.script, tuple(args), workers=self.workers, check=self.check, others=rest
            )
        placeholder = placeholder_in(lines_of(script))
        if script.workers is None and placeholder is not None:
            problem = (
                f"expected their number, since {placeholder} in the script's arguments needs it"
            )
            raise BadInput("--workers", "", problem)
        return script

    def _read_ranks(self) -> Script:
        from squall.sim.scripts.ranks_file import RanksError, read_ranks

        name = str(self.script)
        if self.args:
            problem = f"{name!r} says what the arguments are, expected none besides"
            raise BadInput("ARGS", self.args[0], problem)
        try:
            script = read_ranks(self.script, check=self.check)
        except OSError as error:
            raise BadInput("SCRIPT", name, f"cannot read {name!r}: {error.strerror}") from None
        except RanksError as error:
            raise BadInput("SCRIPT", name, f"{name}: {error}") from None
        self._check_number(script.workers)
        return script

    def _check_number(self, lines: int | None) -> None:
        if lines is not None and self.workers not in (None, lines):
            problem = f"{lines} command lines are given, expected {lines} or no --workers"
            raise BadInput("--workers", str(self.workers), problem)

    def _plan(self, script: Script) -> Plan:
        """What is to go wrong.

        Raises :class:`BadInput` for a plan with other workers.
        """
        from squall.sim.faults.plan import NO_FAULTS

        if self.faults is None:
            return NO_FAULTS
        if self.faults.profile is None:
            return self.faults.plan_for(script.workers)
        assert script.workers is not None, "it is known from the beginning"
        from squall.real.rpc.constants import DEFAULT_RPC_TIMEOUT_S
        from squall.sim.search.draw import draw_faults

        return draw_faults(self.faults.profile, self.seed, script.workers, DEFAULT_RPC_TIMEOUT_S)

    def command(self) -> str:
        """The command line that repeats this run, for a shell."""
        words = ["squall", "run", str(self.script)]
        if self.workers is not None:
            words += ["--workers", str(self.workers)]
        words += ["--seed", str(self.seed)]
        if self.latency != DEFAULT_LATENCY:
            words += ["--latency", self.latency]
        if self.faults is not None:
            words += ["--faults", self.faults.text]
        if self.device != "cpu":
            words += ["--device", self.device]
        if self.engine != "port":
            words += ["--engine", self.engine]
        if not self.check:
            words.append("--no-check")
        if self.wall_limit != DEFAULT_LIMIT_S:
            words += ["--wall-limit", f"{self.wall_limit:g}"]
        for option, packages in (("--simulate", self.simulate), ("--share", self.share)):
            words += [word for package in packages for word in (option, package)]
        if self.compute:
            words += ["--compute", self.compute]
        if self.go_on:
            words.append("--go-on")
        if self.backend != "gloo":
            words += ["--backend", self.backend]
        if not self.replicas:
            words.append("--no-replicas")
        if self.args:
            words += ["--", *self.args]
        return shlex.join(words)


def _parts(words: tuple[str, ...]) -> list[list[str]]:
    """The arguments of the first script, then file and arguments of each other one."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word == NEXT:
            parts.append([])
        else:
            parts[-1].append(word)
    if not all(parts[1:]):
        problem = "expected a Python script and its arguments after each ':' that stands alone"
        raise BadInput("ARGS", NEXT, problem)
    return parts
