"""What ``squall timeline`` is to show: a scenario or a script, run once."""

from __future__ import annotations

import shlex
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from squall.sim.cli.input import BadInput, read_run_options
from squall.sim.cli.scenario import read_scenario
from squall.sim.cli.streams import each_warning_once, stdout_to_stderr
from squall.sim.world.latency import DEFAULT_LATENCY

if TYPE_CHECKING:
    from squall.sim.pictures.odds import Odds
    from squall.sim.pictures.recording import Recording
    from squall.sim.scenario import Scenario


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
    from squall.sim.cli.script import read_script_scenario
    from squall.sim.pictures.recording import recording
    from squall.sim.scenarios.engines import ENGINES

    bar.say(f"running {what}")
    scenario = read_script_scenario(options)
    if options.engine == "torch":
        from squall.sim.cli.native import ready_native

        ready_native(sys.stderr)
    with stdout_to_stderr(), each_warning_once():
        ran = ENGINES[scenario.engine].run(scenario, stdout=sys.stderr)
    run = recording(ran, title=what, replay=options.command())
    run.facts |= {"latency": options.latency}
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
    scenario = read_scenario(
        what,
        faults=world.faults,
        mutant=world.mutant,
        device=world.device,
        engine=world.engine,
        field="SEED|FILE|SCRIPT",
    )
    from squall.sim.pictures.odds import measure
    from squall.sim.pictures.recording import facts_of, recording
    from squall.sim.scenarios.failure import expecting
    from squall.sim.search.again import again, planted

    words = ["squall", "replay", what, *world.words()]
    title = f"seed {what}" if what.isdigit() else what
    if scenario.profile:
        title += f", faults {scenario.profile}"
    bar.say(f"running {title}")
    with redirect_stdout(sys.stderr):
        ran = again(scenario)
    facts = facts_of(scenario)
    run = recording(ran, title=title, replay=shlex.join(words), facts=facts)
    if keep:
        _keep(expecting(scenario, ran))
    if not odds:
        return run, None
    if not ran.violations:
        raise BadInput("--odds", "", "this run does not fail: there is no probability to follow")

    def on_run(done: int, of: int) -> None:
        bar.say("odds", done, of)

    with planted(scenario.expected.mutant):
        return run, measure(scenario, points=spread[0], times=spread[1], on_run=on_run)


def _keep(scenario: Scenario) -> None:
    from squall.sim.scenarios.file import dump_scenario, name_of
    from squall.sim.scenarios.store import default_place, write_synced

    folder = default_place().runs
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_synced(folder / f"{name_of(scenario)}.json", dump_scenario(scenario))
    except OSError as error:
        problem = f"cannot write into {str(folder)!r}: {error.strerror}"
        raise BadInput("--keep", "", problem) from None
