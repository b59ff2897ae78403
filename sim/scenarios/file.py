"""Scenarios as JSON files: everything a run depends on, so that it can be run again.

    saved = load_scenario(Path("failure.json"))
    text = dump_scenario(saved)

A file holds a program or a script with its text, the network, the faults with the order of tasks,
the seed, and what came of it when it was written. Whatever is wrong with a file is told in one
message that names the place: ``program.trainers[0].worker: 9 is not one of the 4 workers``.

A version of squall reads every version of the format in :data:`VERSIONS`, and a file whose faults
are concrete (see sim/faults/plan.py) runs the same whatever has become of the generators since.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter

import squall.sim.programs.stories.play  # noqa: F401  registers the stories that programs have
from squall.model.program.file import program_from_json, program_to_json, renamed
from squall.model.program.program import Program
from squall.model.program.strict_json import check_version, parse, read_text, shown, validate
from squall.real.rpc.constants import DEFAULT_RPC_TIMEOUT_S
from squall.sim.cli.input import DEVICES, ENGINES, MAX_SEED, MAX_WORKERS
from squall.sim.faults.file import MOST, plan_from_json, plan_to_json
from squall.sim.faults.plan import NO_FAULTS, Plan
from squall.sim.world.latency import DEFAULT_LATENCY, parse_latency

#: versions of the format that can be read; the last one is written
VERSIONS = (1, 2)

_STRICT = ConfigDict(extra="forbid", strict=True)


class ScenarioError(ValueError):
    """A scenario is not valid. The text names the place and says what is wrong there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """The network of a run: ``latency`` as in :func:`squall.sim.world.latency.parse_latency`, bandwidth of
    each link in bytes a second of virtual time (None: no limit)."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    latency: str = DEFAULT_LATENCY
    bandwidth_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script written for stock PyTorch: its path, its text, and its arguments.

    ``workers`` None leaves their number to the script. ``check``: compare every gradient with
    the single-process reference.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    path: str
    text: str
    args: tuple[str, ...] = ()
    workers: int | None = None
    check: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What came of the run when the file was written; None: not known.

    ``property`` and ``what`` are of the first violation. ``mutant`` is a bug that was planted
    then (sim/search/mutants/planted), which a replay plants again.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    digest: str | None = None
    outcome: str | None = None
    property: str | None = None
    what: str | None = None
    mutant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedScenario:
    """What a scenario file holds. Either ``program`` or ``script`` is there.

    ``shut_down_early``: workers of a program shut down with references in hand and work under way.
    ``skip_handshakes``: their group begins without the round of calls that opens its connections, and ends
    without one where all is quiet.
    ``rpc_timeout_s``: how long a call of a program may take by default, in seconds of virtual time.
    ``profile`` names the profile that drew the faults, ``note`` is for people; neither decides
    anything.
    """

    seed: int = 0
    program: Program | None = None
    script: Script | None = None
    network: NetworkSpec = NetworkSpec()
    faults: Plan = NO_FAULTS
    shut_down_early: bool = False
    skip_handshakes: bool = False
    rpc_timeout_s: float = DEFAULT_RPC_TIMEOUT_S
    device: str = "cpu"
    engine: str = "port"
    expected: Expected = Expected()
    profile: str | None = None
    note: str = ""
    version: int = VERSIONS[-1]

    @property
    def workers(self) -> int | None:
        """How many workers there are; None if a script decides."""
        if self.program is not None:
            return self.program.workers
        return self.script.workers if self.script is not None else None

    @property
    def operations(self) -> int | None:
        """Operations of all steps of the program; None for a script."""
        if self.program is None:
            return None
        return sum(len(step.ops) for _, _, step in self.program.steps)

    @property
    def name(self) -> str:
        """Eight hex digits over everything that decides the run: equal runs, equal names."""
        plain = replace(self, expected=Expected(mutant=self.expected.mutant), note="", profile=None)
        text = json.dumps(scenario_to_json(plain), sort_keys=True)
        return blake2b(text.encode(), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """The fields of a file that are not read by somebody else."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    seed: int = 0
    script: Script | None = None
    network: NetworkSpec = NetworkSpec()
    shut_down_early: bool = False
    skip_handshakes: bool = False
    rpc_timeout_s: float = DEFAULT_RPC_TIMEOUT_S
    device: str = "cpu"
    engine: str = "port"
    expected: Expected = Expected()
    profile: str | None = None
    note: str = ""
    version: int = VERSIONS[-1]


_FRAME: TypeAdapter[_Frame] = TypeAdapter(_Frame)
_FIELDS = tuple(field.name for field in fields(_Frame))


def load_scenario(source: str | Path) -> SavedScenario:
    """A scenario from a file (a ``Path``) or from the text of one.

    A file that holds a program alone is the scenario of that program without faults. Raises
    ValueError (ScenarioError or ProgramError) for anything else, OSError if there is no such file.
    """
    if isinstance(source, Path):
        source = read_text(source, "scenario", ScenarioError)
    return scenario_from_json(parse(source, "scenario", ScenarioError))


def scenario_from_json(data: Any) -> SavedScenario:
    """A scenario from what its JSON says. Raises ValueError, as :func:`load_scenario` does."""
    if isinstance(data, dict) and "trainers" in data and "program" not in data:
        return SavedScenario(program=program_from_json(data))
    check_version(data, VERSIONS, "scenario", ScenarioError)
    data = _upgraded(data)
    rest = {name: value for name, value in data.items() if name not in ("program", "faults")}
    frame = validate(_FRAME, rest, place="scenario", noun="scenario", problem=ScenarioError)
    program = data.get("program")
    if (program is None) == (frame.script is None):
        both = "both a program and" if program is not None else "neither a program nor"
        raise ScenarioError(f"scenario: has {both} a script, expected one of them")
    _check_frame(frame)
    parsed = None if program is None else program_from_json(program, place="program")
    workers = parsed.workers if parsed is not None else None
    if frame.script is not None:
        workers = frame.script.workers
    faults = plan_from_json(data.get("faults", {}), workers=workers, place="faults")
    return SavedScenario(
        program=parsed,
        faults=faults,
        **{name: getattr(frame, name) for name in _FIELDS},
    )


def _upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """What a file of an earlier version says, in the words of this one.

    The digest that it expects is of another squall: sizes of messages, and the names of what runs
    beside a program, have changed since.
    """
    if data.get("version") != 1:
        return data
    data = renamed(data, {"linger": "shut_down_early", "brief": "skip_handshakes"})
    expected = data.get("expected")
    if isinstance(expected, dict):
        expected = {name: value for name, value in expected.items() if name != "digest"}
        if isinstance(what := expected.get("what"), str):
            expected["what"] = what.replace("an aside: ", "a story: ", 1)
        data["expected"] = expected
    return {**data, "version": VERSIONS[-1]}


def _check_frame(frame: _Frame) -> None:
    if not 0 <= frame.seed <= MAX_SEED:
        raise ScenarioError(f"scenario.seed: {frame.seed} is not between 0 and {MAX_SEED}")
    try:
        parse_latency(frame.network.latency)
    except ValueError as error:
        raise ScenarioError(f"scenario.network.latency: {error}") from None
    bandwidth = frame.network.bandwidth_bytes_per_s
    if bandwidth is not None and not bandwidth > 0:
        raise ScenarioError(
            f"scenario.network.bandwidth_bytes_per_s: {bandwidth} is not a positive number"
        )
    if not frame.rpc_timeout_s >= 0:
        raise ScenarioError(f"scenario.rpc_timeout_s: {frame.rpc_timeout_s} is negative")
    if frame.rpc_timeout_s > MOST:
        raise ScenarioError(
            f"scenario.rpc_timeout_s: {shown(frame.rpc_timeout_s)} is more than {MOST:g}; 0 is none"
        )
    for place, value, known in (
        ("device", frame.device, DEVICES),
        ("engine", frame.engine, ENGINES),
    ):
        if value not in known:
            raise ScenarioError(f"scenario.{place}: {shown(value)} is not {' or '.join(known)}")
    script = frame.script
    if script is None:
        return
    for name in ("shut_down_early", "skip_handshakes"):
        if getattr(frame, name):
            raise ScenarioError(f"scenario.{name}: is for a program; a script shuts down by itself")
    if script.workers is not None and not 1 <= script.workers <= MAX_WORKERS:
        raise ScenarioError(
            f"scenario.script.workers: {script.workers} is not between 1 and {MAX_WORKERS}"
        )
    try:
        compile(script.text, script.path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise ScenarioError(f"scenario.script.text: is no Python script: {error}") from None


def dump_scenario(saved: SavedScenario, *, indent: int | None = 1) -> str:
    """The scenario as JSON text, fields at their defaults left out."""
    return json.dumps(scenario_to_json(saved), indent=indent) + "\n"


def scenario_to_json(saved: SavedScenario) -> dict[str, Any]:
    """The scenario as plain JSON values; version and seed are always there."""
    frame = _Frame(**{name: getattr(saved, name) for name in _FIELDS})
    data: dict[str, Any] = _FRAME.dump_python(frame, mode="json", exclude_defaults=True)
    whole: dict[str, Any] = {"version": saved.version, "seed": saved.seed, **data}
    if saved.program is not None:
        whole["program"] = program_to_json(saved.program)
    if saved.faults != NO_FAULTS:
        whole["faults"] = plan_to_json(saved.faults)
    return whole
