"""Which scenario a command line means: a seed, a file, or a failure of the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squall.sim.cli.input import BadInput, device_name, engine_name, integer
from squall.sim.scenario import MAX_SEED

if TYPE_CHECKING:
    from squall.sim.faults.plan import Plan
    from squall.sim.scenario import Scenario


def read_scenario(
    text: str,
    *,
    faults: str | None = None,
    mutant: str | None = None,
    device: str | None = None,
    engine: str | None = None,
    field: str = "SCENARIO",
) -> Scenario:
    """The scenario of a seed, of a file, of the corpus, or of a stored failure by its name.

    ``faults``: the profile that draws a seed's faults, or a file with a plan, which takes the
    place of the scenario's own. ``mutant``: a bug to plant. Raises :class:`BadInput`.
    """
    from squall.sim.faults.plan import NO_FAULTS
    from squall.sim.search.draw import Settings, draw

    profile, file = (None, faults) if faults is not None and _is_file(faults) else (faults, None)
    path = Path(text)
    named = None if engine is None else engine_name(engine)
    on = None if device is None else device_name(device)
    if text.isascii() and text.isdigit() and not path.exists():
        seed = integer(field, text, 0, MAX_SEED)
        plan = NO_FAULTS if file is None else _plan(file, None)
        scenario = draw(seed, Settings(_profile(profile), plan, named or "port", on or "cpu"))
    elif profile is not None:
        problem = f"{profile!r} is no file with a plan, and a profile is for a seed"
        raise BadInput("--faults", profile, problem)
    else:
        scenario = _of_file(text, field)
        if file is not None:
            scenario = _under(scenario, _plan(file, scenario.workers))
        if named is not None:
            scenario = replace(scenario, engine=named)
        if on is not None:
            scenario = scenario.in_world(device=on)
        device_name(scenario.world.device)
    return scenario if mutant is None else _with_mutant(scenario, mutant)


def _profile(name: str | None) -> Any:
    from squall.sim.search.draw import PROFILES

    if name is not None and name not in PROFILES:
        known = " or ".join(PROFILES)
        raise BadInput("--faults", name, f"expected {known} or a file, got {name!r}")
    return name


def _under(scenario: Scenario, plan: Plan) -> Scenario:
    """The scenario with another plan: another run, of which nothing is known."""
    from squall.model.program.program import computation_of
    from squall.sim.scenario import Expected

    expected = Expected(mutant=scenario.expected.mutant)
    scenario = replace(scenario, profile=None, expected=expected).in_world(faults=plan)
    if scenario.program is not None and plan:
        program = computation_of(scenario.program)
        scenario = replace(scenario, work=program)
        scenario = scenario.in_world(shut_down_early=False, skip_handshakes=False)
    return scenario


def _is_file(text: str) -> bool:
    return Path(text).is_file()


def _of_file(text: str, field: str) -> Scenario:
    from squall.sim.scenarios.file import load_scenario
    from squall.sim.scenarios.store import Store, StoreError
    from squall.sim.search.corpus import corpus

    path = Path(text)
    if not path.exists() and text in corpus():
        return corpus()[text]
    if not path.exists():
        kept = None
        try:
            kept = Store().find(text)
        except StoreError as error:
            raise BadInput(field, text, f"cannot look {text!r} up: {error}") from None
        if kept is None:
            problem = f"{text!r} is no seed, no file and no stored failure (see squall failures)"
            raise BadInput(field, text, problem)
        path = Path(kept.file)
    try:
        return load_scenario(path)
    except OSError as error:
        raise BadInput(field, text, f"cannot read {str(path)!r}: {error.strerror}") from None
    except ValueError as error:
        raise BadInput(field, text, f"{path}: {error}") from None


def _plan(text: str, workers: int | None) -> Plan:
    from squall.sim.faults.file import load_plan

    try:
        return load_plan(Path(text), workers=workers)
    except OSError as error:
        raise BadInput("--faults", text, f"cannot read {text!r}: {error.strerror}") from None
    except ValueError as error:
        raise BadInput("--faults", text, f"{text}: {error}") from None


def _with_mutant(scenario: Scenario, name: str) -> Scenario:
    import difflib

    from squall.sim.scenario import Expected
    from squall.sim.search.mutants.planted import MUTANTS

    if name not in MUTANTS:
        near = difflib.get_close_matches(name, MUTANTS, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; squall mutants --list shows them"
        raise BadInput("--mutant", name, f"there is no mutant {name!r}{hint}")
    if scenario.expected.mutant == name:
        return scenario
    return replace(scenario, expected=Expected(mutant=name))
