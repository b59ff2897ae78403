"""A function or a test that ranks call, as an ordinary script for stock PyTorch."""

from __future__ import annotations

import ast
import base64
import importlib
import sys
from pathlib import Path
from typing import Any

from squall.sim.library.function import asked_of
from squall.sim.library.pickled_functions import opened
from squall.sim.library.rank import Asked
from squall.sim.scenario import Scenario, Script

_TEXT = '''\
"""{what} of {file}, with a process for each of {workers} ranks.

    python {out}    (stock PyTorch)
    squall run {out} --seed {seed} --latency {latency}
    {origin}
{told}"""

import inspect
import os
import sys

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

sys.path.insert(0, {folder!r})
{from_}

WORKERS = {workers}
# Without what decorators have made of it.
function = inspect.unwrap({name})


def main(rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORKERS))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
{body}


if __name__ == "__main__":
    mp.spawn(main, nprocs=WORKERS)
'''


class NotAScriptError(ValueError):
    """There is no such script; the text says why."""


def is_function(scenario: Scenario) -> bool:
    """Whether its ranks call a function, by a script that squall has written."""
    return scenario.script is not None and asked_of(scenario.script) is not None


def function_script(scenario: Scenario, origin: str, out: str) -> str:
    """The script of a scenario whose ranks call a function. ``origin``: the command line that replays it;
    ``out``: where the script goes. Raises NotAScriptError."""
    script = scenario.script
    asked = None if script is None else asked_of(script)
    assert script is not None and asked is not None, "it is one of a function"
    module, _, name = (asked.function or "").partition(":")
    if not name or "." in name:
        raise NotAScriptError("its ranks call a function that is not at the top of a module")
    folder = Path(script.path).parent
    call = f"function({', '.join(['rank', *_arguments(asked, folder)])})"
    body = [call]
    if asked.join is not None:
        joined = f"rpc.init_rpc(f{asked.join!r}, rank=rank, world_size=WORKERS)"
        body = [joined, call, "rpc.shutdown()"]
    faults = [item.told({}) for _, _, item in scenario.faults.items()]
    told = ["", "What went wrong under squall, too:", *(f"- {each}" for each in faults)]
    return _TEXT.format(
        what=name,
        file=folder.joinpath(*module.split(".")).with_suffix(".py"),
        workers=_workers(script),
        out=out,
        seed=scenario.seed,
        latency=scenario.world.latency,
        origin=origin,
        told="".join(f"{line}\n" for line in told) if faults else "",
        folder=str(folder),
        from_=f"from {module} import {name}",
        name=name,
        body="\n".join(f"    {line}" for line in body),
    )


def _workers(script: Script) -> int:
    assert script.workers is not None, "so many ranks call a function"
    return script.workers


def _arguments(asked: Asked, folder: Path) -> list[str]:
    """What follows the rank, as text."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        data = base64.b85decode(asked.carried)
        _, args, kwargs = opened(data, importlib.import_module, {})
    except (ImportError, AttributeError) as error:
        raise NotAScriptError(f"an argument cannot be read: {error}") from None
    finally:
        sys.path[:] = before
    return [
        *(_text(f"argument {number}", value) for number, value in enumerate(args, 1)),
        *(f"{name}={_text(name, value)}" for name, value in kwargs.items()),
    ]


def _text(name: str, value: Any) -> str:
    text = repr(value)
    try:
        if ast.literal_eval(text) == value:
            return text
    except (ValueError, SyntaxError):
        pass
    raise NotAScriptError(f"{name} is a {type(value).__name__}, which has no text in Python")
