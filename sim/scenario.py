"""One object that travels: everything a run depends on.

A seed becomes a :class:`Scenario` once (sim/search/draw.py); campaigns, the store, replay,
shrinking, timelines and tests pass it on as it is, and a file holds exactly this
(sim/scenarios/file.py). Running it is for the engine that it names (sim/scenarios/engines.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from pydantic import AfterValidator, ConfigDict, Field, SkipValidation

from squall.model.program.program import Program
from squall.model.program.strict_json import MadeError, shown
from squall.model.program.validated import Checked, check_fields
from squall.real.rpc.constants import DEFAULT_RPC_TIMEOUT_S
from squall.sim.faults.file import MOST, check_plan
from squall.sim.faults.plan import NO_FAULTS, Plan
from squall.sim.names import (
    ENGINE_NAMES,
    MAX_SEED,
    MAX_WORKERS,
    NOT_ON_TORCH,
    BackendName,
    Device,
    EngineName,
    runs_on,
)
from squall.sim.world.algorithms import parse_algorithms
from squall.sim.world.compute import parse_compute
from squall.sim.world.latency import DEFAULT_LATENCY, parse_latency
from squall.sim.world.links import parse_links

Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


def _latency(text: str) -> str:
    parse_latency(text)
    return text


def _compute(text: str) -> str:
    parse_compute(text)
    return text


def _links(text: str) -> str:
    parse_links(text)
    return text


def _algorithms(text: str) -> str:
    parse_algorithms(text)
    return text


def _engine(name: str) -> str:
    if name not in ENGINE_NAMES:
        raise ValueError(f"should be {' or '.join(map(repr, ENGINE_NAMES))}")
    return name


Engine = Annotated[EngineName, AfterValidator(_engine)]
_STRICT = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine(Checked):
    """A file with Python code, its text, its arguments, and variables of its environment.

    ``{rank}`` and ``{workers}`` in an argument or a value of a variable stand for the rank of the
    process and the number of them; ``{world_size}`` is that number, too.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    path: str
    text: str
    args: tuple[str, ...] = ()
    environ: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script(CommandLine):
    """A script written for stock PyTorch: what is run for it, as a shell or ``torchrun`` would.

    ``others``: the command lines of ranks 1 and up, where each rank has one of its own; the script's
    fields are then those of rank 0. ``workers`` None leaves their number to the script. ``check``:
    compare every gradient with the single-process reference. ``simulate`` and ``share``: installed packages
    that each process of the engine port executes for itself, or that all share, whatever they import
    (:mod:`squall.sim.scripts.installed`). ``compute``: what operators and modules take, as in
    :func:`squall.sim.world.compute.parse_compute`. ``go_on``: what is wrong in process groups does what it does
    on stock PyTorch, instead of ending the run. ``backend``: as on which one operations of process groups wait for
    others, whatever the script asks for. ``replicas``: compare what ranks have alike. ``modules``: of
    one that was kept, the files that it imports and their texts (sim/scenarios/sources.py).
    """

    workers: Annotated[int, Field(ge=1, le=MAX_WORKERS)] | None = None
    check: bool = True
    others: tuple[CommandLine, ...] = ()
    simulate: tuple[str, ...] = ()
    share: tuple[str, ...] = ()
    compute: Annotated[str, AfterValidator(_compute)] = ""
    go_on: bool = False
    backend: BackendName = "gloo"
    replicas: bool = True
    modules: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        lines = 1 + len(self.others)
        if self.others and self.workers != lines:
            raise MadeError(
                f"Script.workers: {self.workers} is wrong: should be {lines}, since so many command "
                "lines are given"
            )
        for package in self.simulate:
            if package in self.share:
                raise MadeError(f"Script.share: {package!r} is wrong: simulate has it too")


@dataclass(frozen=True, slots=True, kw_only=True)
class World(Checked):
    """What a run takes place in.

    ``latency`` of each message, as in :func:`squall.sim.world.latency.parse_latency`.
    ``bandwidth_bytes_per_s`` of each link, in virtual time; None: no limit. ``faults``: what is to
    go wrong, and in which order tasks run. ``rpc_timeout_s``: how long a call of a program may
    take by default, in seconds of virtual time; a script says that itself.
    ``shut_down_early``: workers of a program shut down with references in hand and work under way.
    ``skip_handshakes``: their group begins without the round of calls that opens its connections,
    and ends without one where nothing is under way any more. ``device``: where all tensors live.
    ``links``: what they cost, as in :func:`squall.sim.world.links.parse_links`, in the place of latency and bandwidth;
    then collectives of a script on the engine torch go by the steps of algorithms, those of ``algorithms``
    (:func:`squall.sim.world.algorithms.parse_algorithms`) or of its backend, and it is noted when ranks compute.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    latency: Annotated[str, AfterValidator(_latency)] = DEFAULT_LATENCY
    bandwidth_bytes_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    faults: Plan = NO_FAULTS
    rpc_timeout_s: Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)] = (
        DEFAULT_RPC_TIMEOUT_S
    )
    shut_down_early: bool = False
    skip_handshakes: bool = False
    device: Device = "cpu"
    links: Annotated[str, AfterValidator(_links)] = ""
    algorithms: Annotated[str, AfterValidator(_algorithms)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected(Checked):
    """What came of the run when the scenario was saved; None: not known.

    ``property`` and ``what`` are of the first violation. ``mutant`` is a bug that was planted
    then (properties/planted), which a replay plants again.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    digest: str | None = None
    outcome: str | None = None
    property: str | None = None
    what: str | None = None
    mutant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(Checked):
    """What runs (``work``), from which random numbers, in which world, on which engine.

    ``profile`` names the profile that drew the faults, ``note`` is for people; neither decides
    anything.
    """

    work: Annotated[Program | Script, SkipValidation]
    seed: Seed = 0
    world: World = World()
    engine: Engine = "port"
    expected: Expected = Expected()
    profile: str | None = None
    note: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        if not isinstance(self.work, Program | Script):
            raise MadeError(f"scenario.work: {shown(self.work)} is no program and no script")
        check_plan(self.faults, workers=self.workers)
        if not runs_on(self.engine, self.world.device):
            raise MadeError(f"scenario.world.device: {NOT_ON_TORCH.format(self.world.device)}")
        for name in ("links", "algorithms"):
            if getattr(self.world, name) and (self.script is None or self.engine != "torch"):
                raise MadeError(f"scenario.world.{name}: is for scripts on the engine torch")
        if self.world.algorithms and not self.world.links:
            raise MadeError("scenario.world.algorithms: needs scenario.world.links")
        for name in ("shut_down_early", "skip_handshakes"):
            if self.script is not None and getattr(self.world, name):
                raise MadeError(
                    f"scenario.world.{name}: is for a program; a script shuts down by itself"
                )

    @property
    def program(self) -> Program | None:
        """The program; None if it is a script that runs."""
        return self.work if isinstance(self.work, Program) else None

    @property
    def script(self) -> Script | None:
        """The script; None if it is a program that runs."""
        return self.work if isinstance(self.work, Script) else None

    @property
    def faults(self) -> Plan:
        """What is to go wrong."""
        return self.world.faults

    @property
    def workers(self) -> int | None:
        """How many workers there are; None if a script decides."""
        return self.work.workers

    @property
    def operations(self) -> int | None:
        """Operations of all steps of the program; None for a script."""
        if isinstance(self.work, Script):
            return None
        return sum(len(step.ops) for _, _, step in self.work.steps)

    def in_world(self, **changes: object) -> Scenario:
        """The same in a world that differs in these fields."""
        return replace(self, world=replace(self.world, **changes))  # type: ignore[arg-type]
