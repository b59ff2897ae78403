"""The processes that all runs on the compiled engine copy their workers from: one for programs, and one for
scripts of each kind, all of them copies of one that has imported torch."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

from squall.sim.stock.changes import CALLED
from squall.sim.stock.fork_server import ForkServer
from squall.sim.stock.patience import processor_s
from squall.sim.trainings.training import training_in

if TYPE_CHECKING:
    from squall.sim.scenario import Script


#: what optimizers, ``torch.manual_seed`` and sharded modules import, which takes as long as torch itself
WARM = "squall.real.native.warm"
#: of what a script's text has one of these words in
_WARM_WORDS = ("optim", "manual_seed", "distributed.fsdp", "distributed.tensor", "pipelining")
#: what takes up to half a second besides
_AHEAD = ("torch.distributed.optim", "torch.distributed.checkpoint")
#: what the process that is copied imports, to play programs or scripts
PROGRAMS = ("squall.sim.stock.guest", WARM)
SCRIPTS = ("squall.sim.stock.script_guest", "squall.sim.stock.stacks", WARM)
#: what is asked when all of that is there, and is the same in each copy
_ASKED = "squall.sim.stock.script_programs:having_popen"
#: done once for all trainings of a kind that are drawn
_REHEARSAL = "squall.sim.trainings.rehearsal:rehearse"
#: variables that nothing depends on but this process itself; pytest changes its one with each test
_FREE = ("SQUALL_", "PYTEST_CURRENT_TEST")
#: what the others are copies of has imported nothing else
_TORCH_ALONE: tuple[str, ...] = ()
#: by the modules that it has imported
_shared: dict[tuple[str, ...], ForkServer] = {}
#: by the same, and what is changed now
_changed: dict[tuple[str, ...], ForkServer] = {}
# A copy of this process starts its own: of these the links are this one's.
os.register_at_fork(after_in_child=_shared.clear)
os.register_at_fork(after_in_child=_changed.clear)
#: what they were started with: some of it counts as an interpreter starts, or a library is imported
_environment: dict[str, str] = {}


def for_script(script: Script) -> tuple[str, ...]:
    """What the process imports that is copied for a script: of what takes long, what its text names. Should it
    come to need more, each copy imports that itself."""
    training = training_in(script.text)
    if training is not None:  # all have what any of them needs
        return (*SCRIPTS, *_AHEAD, _ASKED, f"{_REHEARSAL} {training.kind}")
    text = "\n".join(line.text for line in (script, *script.others)).lower()
    warm = any(word in text for word in _WARM_WORDS)
    modules = [name for name in SCRIPTS if name != WARM or warm]
    return (*modules, *(name for name in _AHEAD if name in text), _ASKED)


def shared_fork_server(modules: tuple[str, ...]) -> ForkServer:
    """The process with these modules that this one copies workers from.

    It is started once, and ends with this one; all are started anew if this process has another environment
    since then, but for variables of squall's own. While code is changed (sim/stock/changes.py) it is a copy of that,
    with the changes. Raises
    :class:`squall.real.native.build.Unavailable`.
    """
    fork_server = begun_fork_server(modules)
    try:
        fork_server.ready()
    except BaseException:
        close_fork_servers()
        raise
    return fork_server


def begun_fork_server(modules: tuple[str, ...]) -> ForkServer:
    """The same process, which may be importing still: it does so while the caller does something else."""
    environment = {name: it for name, it in os.environ.items() if not name.startswith(_FREE)}
    if environment != _environment:
        close_fork_servers()
        _environment.clear()
        _environment.update(environment)
    if not _shared:
        atexit.register(close_fork_servers)
        _shared[_TORCH_ALONE] = ForkServer(_TORCH_ALONE, wait=False)
    if not CALLED:
        return _begun(modules)
    # A rehearsal is of the code without the changes.
    plain = modules[: modules.index(_ASKED) + 1] if _ASKED in modules else modules
    changed = (*plain, *CALLED)
    if changed not in _changed:
        _close_changed()
        _changed[changed] = ForkServer(CALLED, of=_begun(plain), wait=False)
    return _changed[changed]


def _begun(modules: tuple[str, ...]) -> ForkServer:
    if modules not in _shared:
        *most, last = modules
        if _ASKED in most:  # the last is something that the copy of another does besides
            _shared[modules] = ForkServer([last], of=_begun(tuple(most)), wait=False)
        else:
            _shared[modules] = ForkServer(modules, of=_shared[_TORCH_ALONE], wait=False)
    return _shared[modules]


def computed_s() -> float:
    """Seconds of a processor that all of these processes have taken, and those copies of theirs that have ended."""
    return sum(processor_s(each.pid) for each in (*_shared.values(), *_changed.values()))


def close_fork_servers() -> None:
    """End them, if there are any, copies first."""
    _close_changed()
    while _shared:
        _shared.popitem()[1].close()


def _close_changed() -> None:
    while _changed:
        _changed.popitem()[1].close()
