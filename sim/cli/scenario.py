"""Which scenario a command line means: a seed, a file, or a failure of the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from squall.sim.cli.input import ENGINES, MAX_SEED, BadInput, device_name, integer, one_of

if TYPE_CHECKING:
    from squall.sim.faults.plan import Plan
    from squall.sim.scenarios.file import SavedScenario


def read_scenario(
    text: str,
    *,
    faults: str | None = None,
    mutant: str | None = None,
    device: str | None = None,
    engine: str | None = None,
    field: str = "SCENARIO",
) -> SavedScenario:
    """The scenario of a seed, of a file, or of a stored failure by its name.

    ``faults``: the profile that draws a seed's faults, or a file with a plan, which takes the
    place of the scenario's own. ``mutant``: a bug to plant. Raises :class:`BadInput`.
    """
    from squall.model.program.program import computation_of
    from squall.sim.faults.plan import NO_FAULTS
    from squall.sim.scenarios.file import Expected

    profile, file = (None, faults) if faults is not None and _is_file(faults) else (faults, None)
    path = Path(text)
    if text.isascii() and text.isdigit() and not path.exists():
        seed = integer(field, text, 0, MAX_SEED)
        saved = _of_seed(seed, profile, NO_FAULTS if file is None else _plan(file, None))
    elif profile is not None:
        problem = f"{profile!r} is no file with a plan, and a profile is for a seed"
        raise BadInput("--faults", profile, problem)
    else:
        saved = _of_file(text, field)
        if file is not None:  # another run, of which nothing is known
            expected = Expected(mutant=saved.expected.mutant)
            plan = _plan(file, saved.workers)
            saved = replace(saved, faults=plan, profile=None, expected=expected)
            if saved.program is not None and plan:
                program = computation_of(saved.program)
                saved = replace(
                    saved, program=program, shut_down_early=False, skip_handshakes=False
                )
    if mutant is not None:
        saved = _with_mutant(saved, mutant)
    if device is not None:
        saved = replace(saved, device=device)
    if engine is not None:
        saved = replace(saved, engine=one_of("--engine", engine, ENGINES))
    device_name(saved.device)
    return saved


def _is_file(text: str) -> bool:
    return Path(text).is_file()


def _of_seed(seed: int, profile: str | None, plan: Plan) -> SavedScenario:
    from squall.sim.scenarios.replay import saved_scenario, seed_scenario
    from squall.sim.search.draw import PROFILES

    if profile is not None and profile not in PROFILES:
        known = " or ".join(PROFILES)
        raise BadInput("--faults", profile, f"expected {known} or a file, got {profile!r}")
    return saved_scenario(seed_scenario(seed, profile, plan))


def _of_file(text: str, field: str) -> SavedScenario:
    from squall.sim.scenarios.file import load_scenario
    from squall.sim.scenarios.store import Store, StoreError

    path = Path(text)
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


def _with_mutant(saved: SavedScenario, name: str) -> SavedScenario:
    import difflib

    from squall.sim.scenarios.file import Expected
    from squall.sim.search.mutants.planted import MUTANTS

    if name not in MUTANTS:
        near = difflib.get_close_matches(name, MUTANTS, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; squall mutants --list shows them"
        raise BadInput("--mutant", name, f"there is no mutant {name!r}{hint}")
    if saved.expected.mutant == name:
        return saved
    return replace(saved, expected=Expected(mutant=name))
