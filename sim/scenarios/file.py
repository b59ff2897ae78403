"""Scenarios as JSON files: everything a run depends on, so that it can be run again.

    scenario = load_scenario(Path("failure.json"))
    text = dump_scenario(scenario)

Whatever is wrong with a file is told in one message that names the place:
``scenario.program.trainers[0].worker: 9 is not one of the 4 workers``.

A version of squall reads every version of the format in :data:`VERSIONS`, and a file whose faults
are concrete (see sim/faults/plan.py) runs the same whatever has become of the generators since.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter

from squall.model.program.file import program_from_json, program_to_json
from squall.model.program.stories import declared_by
from squall.model.program.strict_json import MadeError, check_version, parse, read_text, validate
from squall.sim.faults.file import plan_from_json, plan_to_json
from squall.sim.faults.plan import NO_FAULTS
from squall.sim.scenario import Engine, Expected, Scenario, Script, Seed, World


def _stories() -> None:
    import squall.sim.programs.stories.play  # noqa: F401  registers the stories that programs have


declared_by(_stories)

#: versions of the format that can be read; the last one is written
VERSIONS = (1, 2)


class ScenarioError(ValueError):
    """A scenario is not valid. The text names the place and says what is wrong there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """A scenario's fields except ``work``, which a file has as ``program`` or ``script``.

    Programs and plans are read by functions of their own, which check more than types.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    seed: Seed = 0
    script: Script | None = None
    world: World = field(default_factory=World)
    engine: Engine = "port"
    expected: Expected = field(default_factory=Expected)
    profile: str | None = None
    note: str = ""
    version: int = VERSIONS[-1]


_FRAME: TypeAdapter[_Frame] = TypeAdapter(_Frame)
_SHARED = ("seed", "world", "engine", "expected", "profile", "note")


def load_scenario(source: str | Path) -> Scenario:
    """A scenario from a file (a ``Path``) or from the text of one.

    A file that holds a program alone is the scenario of that program without faults. Raises
    ValueError (ScenarioError, ProgramError or PlanError) for anything else, OSError if there is
    no such file.
    """
    if isinstance(source, Path):
        source = read_text(source, "scenario", ScenarioError)
    return scenario_from_json(parse(source, "scenario", ScenarioError))


def scenario_from_json(data: Any) -> Scenario:
    """A scenario from what its JSON says. Raises ValueError, as :func:`load_scenario` does."""
    if isinstance(data, dict) and "trainers" in data and "program" not in data:
        return Scenario(work=program_from_json(data))
    check_version(data, VERSIONS, "scenario", ScenarioError)
    data = _upgraded(data)
    rest = {name: value for name, value in data.items() if name != "program"}
    faults: Any = {}
    if isinstance(world := rest.get("world"), dict):
        faults = world.get("faults", {})
        rest["world"] = {name: value for name, value in world.items() if name != "faults"}
    frame = validate(_FRAME, rest, place="scenario", noun="scenario", problem=ScenarioError)
    program = data.get("program")
    if program is not None and frame.script is not None:
        raise ScenarioError("scenario: has both a program and a script, expected one of them")
    work = frame.script if program is None else program_from_json(program, place="program")
    if work is None:
        raise ScenarioError("scenario: has neither a program nor a script, expected one of them")
    if isinstance(work, Script):
        _check_script(work)
    plan = plan_from_json(faults, workers=work.workers, place="faults")
    return _made(
        work=work,
        seed=frame.seed,
        world=replace(frame.world, faults=plan),
        engine=frame.engine,
        expected=frame.expected,
        profile=frame.profile,
        note=frame.note,
    )


def _made(**fields: Any) -> Scenario:
    try:
        return Scenario(**fields)
    except MadeError as error:
        raise ScenarioError(f"scenario{error.rest}") from None


def _check_script(script: Script) -> None:
    for number, line in enumerate((script, *script.others)):
        try:
            compile(line.text, line.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            place = "scenario.script" + (f".others[{number - 1}]" if number else "")
            raise ScenarioError(f"{place}.text: is no Python script: {error}") from None


#: fields of version 1 that belong to ``world`` now: old name, new name
_OF_THE_WORLD = {
    "faults": "faults",
    "linger": "shut_down_early",
    "brief": "skip_handshakes",
    "rpc_timeout_s": "rpc_timeout_s",
    "device": "device",
}


def _upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """The contents of a file of an earlier version, in the current format.

    The digest that it expects is left out, since it was made by an earlier squall: sizes of
    messages and names of stories have changed since.
    """
    if data.get("version") != 1:
        return data
    world = data.get("network", {})
    if not isinstance(world, dict):
        return {**data, "version": VERSIONS[-1]}  # the check of the fields reports it
    world = world | {new: data[old] for old, new in _OF_THE_WORLD.items() if old in data}
    whole = {name: value for name, value in data.items() if name not in ("network", *_OF_THE_WORLD)}
    whole |= {"world": world, "version": VERSIONS[-1]}
    expected = data.get("expected")
    if isinstance(expected, dict):
        expected = {name: value for name, value in expected.items() if name != "digest"}
        if isinstance(what := expected.get("what"), str):
            expected["what"] = what.replace("an aside: ", "a story: ", 1)
        whole["expected"] = expected
    return whole


def dump_scenario(scenario: Scenario, *, indent: int | None = 1) -> str:
    """The scenario as JSON text, fields at their defaults left out."""
    return json.dumps(scenario_to_json(scenario), indent=indent) + "\n"


def scenario_to_json(scenario: Scenario) -> dict[str, Any]:
    """The scenario as plain JSON values; version and seed are always there."""
    world = replace(scenario.world, faults=NO_FAULTS)
    shared = {name: getattr(scenario, name) for name in _SHARED}
    frame = _Frame(**{**shared, "world": world}, script=scenario.script)
    data: dict[str, Any] = _FRAME.dump_python(frame, mode="json", exclude_defaults=True)
    whole: dict[str, Any] = {"version": VERSIONS[-1], "seed": scenario.seed, **data}
    if scenario.program is not None:
        whole["program"] = program_to_json(scenario.program)
    if scenario.faults != NO_FAULTS:
        whole.setdefault("world", {})["faults"] = plan_to_json(scenario.faults)
    return whole


def name_of(scenario: Scenario) -> str:
    """Eight hex digits over everything that decides the run: equal runs, equal names."""
    mutant = Expected(mutant=scenario.expected.mutant)
    plain = replace(scenario, expected=mutant, note="", profile=None)
    text = json.dumps(scenario_to_json(plain), sort_keys=True)
    name = blake2b(text.encode(), digest_size=4).hexdigest()
    # Digits alone would be read as a seed.
    return f"a{name[1:]}" if name.isdigit() else name
