"""What ``squall timeline`` is to show: a scenario or a script, run once."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from squall.sim.cli.input import ENGINES, BadInput, one_of, read_run_options
from squall.sim.cli.scenario import read_scenario
from squall.sim.cli.streams import each_warning_once, stdout_to_stderr
from squall.sim.world.latency import DEFAULT_LATENCY

if TYPE_CHECKING:
    from squall.sim.pictures.odds import Odds
    from squall.sim.pictures.recording import Recording
    from squall.sim.scenarios.file import SavedScenario
    from squall.sim.scripts.report import Report


class World(NamedTuple):
    """What of a scenario's world the command line replaces; None: as it is."""

    faults: str | None
    mutant: str | None
    engine: str | None
    device: str | None

    def words(self) -> list[str]:
        """The same as words of a command line."""
        return [
            word
            for name, value in self._asdict().items()
            if value is not None
            for word in (f"--{name}", value)
        ]


class Bar:
    """Progress on standard error, on a terminal."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("running", total=None)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str, done: int | None = None, of: int | None = None) -> None:
        """What is going on now, and how much of it is done."""
        self._progress.update(self._task, description=text, completed=done or 0, total=of)


def picture_script(
    what: str,
    args: list[str],
    given: dict[str, str | None],
    world: World,
    bar: Bar,
) -> Recording:
    """Run a script. ``given`` are its options of the command line. Raises :class:`BadInput`."""
    if world.mutant is not None:
        problem = f"is for a seed or a scenario file, and {what!r} is a script"
        raise BadInput("--mutant", world.mutant, problem)
    options = read_run_options(
        script=what,
        args=tuple(args),
        workers=given["--workers"],
        seed="0" if given["--seed"] is None else given["--seed"],
        latency=DEFAULT_LATENCY if given["--latency"] is None else given["--latency"],
        device=world.device or "cpu",
        engine=world.engine or "port",
        check=True,
        faults=world.faults,
    )
    from squall.sim.cli.faults import script_faults
    from squall.sim.pictures.recording import recording
    from squall.sim.scripts.run import ScriptScenario
    from squall.sim.scripts.run import run as run_scenario

    bar.say(f"running {what}")
    scenario = ScriptScenario(
        script=options.script,
        args=options.args,
        workers=options.workers,
        seed=options.seed,
        latency=options.latency,
        device=options.device,
        faults=script_faults(options),
        stdout=sys.stderr,
        stderr=sys.stderr,
    )
    play: Callable[[ScriptScenario], Report] = run_scenario
    if options.engine == "torch":
        from squall.sim.cli.native import ready_native
        from squall.sim.stock.script import run_script

        ready_native(sys.stderr)
        play = run_script
    with stdout_to_stderr(), each_warning_once():
        report = play(scenario)
    facts = {"latency": options.latency}
    run = recording(report, title=what, replay=options.command())
    run.facts |= facts
    return run


def picture_scenario(
    what: str,
    world: World,
    odds: bool,
    spread: tuple[int, int],
    keep: bool,
    bar: Bar,
) -> tuple[Recording, Odds | None]:
    """Run a scenario; ``keep`` it in the store, and measure its ``odds`` over ``spread`` points
    and times. Raises :class:`BadInput`."""
    saved = read_scenario(
        what,
        faults=world.faults,
        mutant=world.mutant,
        device=world.device,
        field="SEED|FILE|SCRIPT",
    )
    if world.engine is not None:
        saved = replace(saved, engine=one_of("--engine", world.engine, ENGINES))
    from squall.sim.pictures.odds import measure
    from squall.sim.pictures.recording import recording
    from squall.sim.scenarios.replay import replay

    words = ["squall", "replay", what, *world.words()]
    title = f"seed {what}" if what.isdigit() else what
    if saved.profile:
        title += f", faults {saved.profile}"
    bar.say(f"running {title}")
    with redirect_stdout(sys.stderr):
        played = replay(saved)
    run = recording(played, title=title, replay=shlex.join(words))
    if keep:
        _keep(replace(saved, expected=played.expectation()))
    if not odds:
        return run, None
    if not played.violations:
        raise BadInput("--odds", "", "this run does not fail: there is no probability to follow")

    def on_run(done: int, of: int) -> None:
        bar.say("odds", done, of)

    return run, measure(saved, points=spread[0], times=spread[1], on_run=on_run)


def _keep(saved: SavedScenario) -> None:
    from squall.sim.scenarios.file import dump_scenario
    from squall.sim.scenarios.store import default_place, write_synced

    folder = default_place().runs
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_synced(folder / f"{saved.name}.json", dump_scenario(saved))
    except OSError as error:
        problem = f"cannot write into {str(folder)!r}: {error.strerror}"
        raise BadInput("--keep", "", problem) from None
