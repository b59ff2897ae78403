"""Which scenario a command line means: a seed, a file, or a failure of the store."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.faults import NamedFaults
from squall.sim.names import GROUPS, MAX_SEED, Device, EngineName

if TYPE_CHECKING:
    from squall.sim.faults.plan import Plan
    from squall.sim.scenario import Scenario
    from squall.sim.scenarios.failure import Failure
    from squall.sim.search.schedules import Rescheduled


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What the command line replaces in a scenario; None: as it is."""

    faults: NamedFaults | None = None
    mutant: str | None = None
    engine: EngineName | None = None
    device: Device | None = None

    def words(self) -> list[str]:
        """The same as words of a command line."""
        values = {
            "--faults": None if self.faults is None else self.faults.text,
            "--mutant": self.mutant,
            "--engine": self.engine,
            "--device": self.device,
        }
        return [word for name, value in values.items() if value for word in (name, value)]


def read_scenario(
    text: str, changes: Changes, field: str = "SCENARIO", *, scripts: bool = False
) -> Scenario:
    """The scenario of a seed, also with another schedule, of a file, of the corpus, or of a stored failure by its name.

    Of ``changes``, a profile of faults draws those of a seed; a plan takes the place of the
    scenario's own. Unless ``scripts``, a file with a script that squall has not written itself is
    asked about on the terminal. Raises :class:`BadInput`, also where the answer is no, or where
    nobody can answer.
    """
    return find_scenario(text, changes, field, scripts=scripts)()


def find_scenario(
    text: str,
    changes: Changes,
    field: str = "SCENARIO",
    *,
    scripts: bool = False,
    now: bool = False,
) -> Callable[[], Scenario]:
    """What makes the scenario that :func:`read_scenario` gives, once it is known that there is one.

    Drawing and reading take torch, which nobody is to wait for whose command line is wrong: whoever
    has several scenarios, or more to look at, finds all first. ``now``: a script with its files as they
    are, and not as they were kept; that they were edited is told either way. Raises :class:`BadInput`.
    """
    seed = None if Path(text).exists() else _seed(text, field)
    if text.startswith(GROUPS) and not Path(text).exists():
        made: Callable[[], Scenario] = partial(
            _of_seed, _of_groups(text, field, changes), changes, groups=True
        )
    elif seed is not None:
        parsers.device_of(changes.engine or "port", changes.device or "cpu")
        made = partial(_of_seed, seed, changes)
    else:
        made = _found(text, field, changes, scripts)

    def scenario() -> Scenario:
        found = _of_this_time(made(), text, now=now)
        return found if changes.mutant is None else _with_mutant(found, changes.mutant)

    return scenario


def _of_this_time(scenario: Scenario, text: str, *, now: bool) -> Scenario:
    from squall.sim.scenarios.sources import as_now, edited

    if now and scenario.script is None:
        raise BadInput("--now", text, f"{text!r} is a program, expected a script or a test")
    changes = edited(scenario)
    for line in changes:
        print(f"edited since it was kept: {line}", file=sys.stderr)
    if now:
        try:
            return as_now(scenario)
        except OSError as error:
            problem = f"cannot read {error.filename!r}: {error.strerror}"
            raise BadInput("--now", text, problem) from None
    if changes:
        replay = shlex.join(["squall", "replay", text, "--now"])
        print(f"this is the run as it was; {replay}: with the files as they are", file=sys.stderr)
    return scenario


def _seed(text: str, field: str) -> int | Rescheduled | None:
    if text.isascii() and text.isdigit():
        return parsers.integer(field, 0, MAX_SEED)(text)
    from squall.sim.search.schedules import rescheduled

    try:
        return rescheduled(text)
    except ValueError as error:
        raise BadInput(field, text, str(error)) from None


def named_seed(text: str, field: str) -> int | Rescheduled:
    """A seed, also with another schedule. Raises :class:`BadInput`."""
    seed = _seed(text, field)
    if seed is None:
        raise BadInput(field, text, f"expected a seed or SEED@SCHEDULE, got {text!r}")
    return seed


def _of_groups(text: str, field: str, changes: Changes) -> int | Rescheduled:
    """The seed of a training. Raises :class:`BadInput`."""
    if changes.engine == "port":
        raise BadInput("--engine", "port", f"{text!r} is a training, expected torch")
    seed = _seed(text.removeprefix(GROUPS), field)
    if seed is None:
        raise BadInput(field, text, f"expected the seed of a training, as groups:7, got {text!r}")
    return seed


def _of_seed(seed: int | Rescheduled, changes: Changes, *, groups: bool = False) -> Scenario:
    from squall.sim.faults.plan import NO_FAULTS
    from squall.sim.search.draw import Settings, draw

    faults = changes.faults
    profile, plan = (None, NO_FAULTS) if faults is None else (faults.profile, faults.plan)
    engine = changes.engine or ("torch" if groups else "port")
    return draw(seed, Settings(profile, plan, engine, changes.device or "cpu", groups=groups))


def _changed(scenario: Scenario, changes: Changes) -> Scenario:
    """A scenario that was saved, with what the command line replaces."""
    if changes.faults is not None:
        scenario = _under(scenario, changes.faults.plan_for(scenario.workers))
    engine = changes.engine or scenario.engine
    device = parsers.device(changes.device or scenario.world.device)
    parsers.device_of(engine, device)
    return replace(scenario, engine=engine, world=replace(scenario.world, device=device))


def _under(scenario: Scenario, plan: Plan) -> Scenario:
    """The scenario with another plan: another run, of which nothing is known."""
    from squall.model.program.variants import under_faults
    from squall.sim.scenario import Expected

    expected = Expected(mutant=scenario.expected.mutant)
    scenario = replace(scenario, profile=None, expected=expected).in_world(faults=plan)
    if scenario.program is not None and plan:
        program = under_faults(scenario.program)
        scenario = replace(scenario, work=program)
        scenario = scenario.in_world(shut_down_early=False, skip_handshakes=False)
    return scenario


def _found(text: str, field: str, changes: Changes, scripts: bool) -> Callable[[], Scenario]:
    """What reads a scenario that was saved, and changes it. Raises BadInput if there is none."""
    faults = changes.faults
    if faults is not None and faults.profile is not None:
        problem = f"{faults.text!r} is no file with a plan, and a profile is for a seed"
        raise BadInput("--faults", faults.text, problem)
    from squall.sim.search.corpus import corpus, names

    path = Path(text)
    if not path.exists() and text in names():
        return lambda: _changed(corpus()[text], changes)
    if not path.exists() or path.suffix == ".py":
        path = _stored(text, field)
    return lambda: _changed(_of_file(path, text, field, scripts), changes)


def kept_failure(text: str, field: str = "SCENARIO") -> Failure | None:
    """A stored failure by its name, or the last one of a script or a test. Raises :class:`BadInput`."""
    from squall.sim.scenarios.store import Store, StoreError

    try:
        kept = Store().find(text)
        if kept is None and Path(text.partition("::")[0]).is_file():
            kept = Store().last_of(text)
    except StoreError as error:
        raise BadInput(field, text, f"cannot look {text!r} up: {error}") from None
    return kept


def _stored(text: str, field: str) -> Path:
    """The file of a stored failure: by its name, or the last one of a script or a test."""
    kept = kept_failure(text, field)
    if kept is None:
        problem = f"{text!r} is no seed, no file and no stored failure (see squall failures)"
        if "::" in text:
            problem = f"no failure of the test {text!r} is kept: pytest {text} looks for one"
        elif text.endswith(".py") and Path(text).exists():
            problem = f"no failure of {text!r} is kept: squall fuzz {text} looks for one"
        raise BadInput(field, text, problem)
    return Path(kept.file)


def _of_file(path: Path, text: str, field: str, scripts: bool) -> Scenario:
    from squall.sim.scenarios.own import read_scenario_file

    try:
        read = read_scenario_file(path)
    except OSError as error:
        raise BadInput(field, text, f"cannot read {str(path)!r}: {error.strerror}") from None
    except ValueError as error:
        raise BadInput(field, text, f"{path}: {error}") from None
    if read.scenario.script is not None and not (scripts or read.own or _agreed(path)):
        problem = (
            f"{str(path)!r} has a Python script, which squall did not write down itself and which "
            "may do whatever you may: expected --allow-scripts, if you trust it (squall export "
            "shows it)"
        )
        raise BadInput(field, text, problem)
    return read.scenario


def _agreed(path: Path) -> bool:
    """Whether somebody at the terminal says that the script of this file may run."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    question = (
        f"{str(path)!r} has a Python script, which squall did not write down itself and which "
        "may do whatever you may. Run it? [y/N] "
    )
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _with_mutant(scenario: Scenario, name: str) -> Scenario:
    from squall.sim.scenario import Expected

    if scenario.expected.mutant == name:
        return scenario
    return replace(scenario, expected=Expected(mutant=name))
