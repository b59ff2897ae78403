"""A command ends when it is told to, whatever it is doing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from squall.properties.support.commands import python

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="processes are watched on Linux from 5.3 on"
)

#: seconds until somebody would look for the reason
PATIENCE_S = 60
#: neither a signal nor another thread is heard in the first; the second loses what is raised in it
BLOCKED = {
    "compiled": "sum(iter(int, 1))",
    "losing": "while True:\n    try:\n        sum(range(1000))\n    except BaseException:\n        pass",
}


def started(folder: Path, body: str, *words: str) -> subprocess.Popen[str]:
    """The command, once its script has begun."""
    script = folder / "script.py"
    script.write_text(f"import os\nos.write(2, b'begun\\n')\n{body}\n", encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "squall", "run", str(script), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        restore_signals=True,
    )
    assert process.stderr is not None and process.stderr.readline() == "begun\n"
    return process


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("kind", BLOCKED)
def test_a_script_that_hears_nothing_is_ended(
    tmp_path: Path, kind: str, told: signal.Signals
) -> None:
    process = started(tmp_path, BLOCKED[kind], "--json")
    time.sleep(0.3)  # until it is in there
    process.send_signal(told)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert json.loads(out)["outcome"] == "interrupted"
    if process.returncode != 130:  # where the second hears it after all
        assert process.returncode == -signal.SIGKILL
        assert 'script.py", line' in err and "it was ended (above: where each thread is)" in err
    else:
        assert kind == "losing"


def test_an_interrupt_that_is_heard_is_left_alone(tmp_path: Path) -> None:
    process = started(tmp_path, "for _ in range(10**9): sum(range(1000))")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130 and "interrupted" in out and "it was ended" not in err


@pytest.mark.deep("the limit, and what the watcher may be late: 13 s")
def test_compiled_code_that_never_ends_meets_the_limit(tmp_path: Path) -> None:
    process = started(tmp_path, BLOCKED["compiled"], "--wall-limit", "1")
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL and "--wall-limit" in err


def test_what_waits_for_something_real_meets_the_limit(tmp_path: Path) -> None:
    """It takes no time of a processor."""
    body = "import ctypes\nctypes.CDLL(None).sleep(1000)"
    process = started(tmp_path, body, "--wall-limit", "0.5")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (1, -signal.SIGKILL) and "script.py" in out + err


COPIED = """
import os, signal, time
from squall.sim.cli import guardian
from squall.sim.world import heartbeat
guardian.begin(None)
signal.signal(signal.SIGTERM, lambda *_: None)
copy = os.fork()
if not copy:
    heartbeat.promise(0.1)
    signal.raise_signal(signal.SIGTERM)
    os._exit(0)
os.waitpid(copy, 0)
time.sleep(2.5)
print("is there")
"""


def test_what_a_copy_of_the_command_hears_or_promises_is_its_own() -> None:
    done = python("-c", COPIED)
    assert (done.returncode, done.stdout) == (0, "is there\n"), done.stderr
