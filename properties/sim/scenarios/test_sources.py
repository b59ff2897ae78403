"""A failure that was kept runs as it was, whatever has become of its files, and says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from squall.properties.support.commands import python, squall
from squall.sim.library.search import fuzz, replay, shrink, why

SCRIPT = """\
import torch.distributed.rpc as rpc
import os
from helper import expected

rank = int(os.environ["RANK"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
if rank == 0:
    got = rpc.rpc_sync("worker1", max, args=(1, 2))
    assert got == expected(), got
rpc.shutdown()
"""
TEST = """\
import torch.distributed.rpc as rpc
import squall
from helper import expected


@squall.test(workers=2, seeds=1, join="worker{rank}")
def test_a_call(rank):
    got = rpc.rpc_sync("worker1", max, args=(1, 2))
    assert got == expected(), got
"""


def kept() -> dict[str, object]:
    (failure,) = json.loads(squall("failures", "--json").stdout)["failures"]
    return dict(failure)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["script", "test"])
def test_a_failure_is_replayed_as_it_was(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    (tmp_path / "helper.py").write_text("def expected():\n    return 3\n", encoding="utf-8")
    if kind == "script":
        (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
        assert squall("run", str(tmp_path / "script.py"), "--workers", "2").returncode == 1
    else:
        (tmp_path / "test_it.py").write_text(TEST, encoding="utf-8")
        assert python("-m", "pytest", "-q", str(tmp_path / "test_it.py")).returncode == 1
    name = str(kept()["name"])
    same = squall("replay", name)
    assert same.returncode == 1 and "edited" not in same.stderr

    (tmp_path / "helper.py").write_text("def expected():\n    return 2\n", encoding="utf-8")
    was = squall("replay", name, "--json")
    assert was.returncode == 1 and json.loads(was.stdout)["digest_matches"]
    assert (
        f"edited since it was kept: {tmp_path / 'helper.py'} is another one from line 2"
        in was.stderr
    )
    assert f"squall replay {name} --now" in was.stderr
    read = squall("replay", name, "--now", "--json")
    told = json.loads(read.stdout)
    assert read.returncode == 0 and not told["digest_matches"] and not told["kept"]["shows"]
    assert "AssertionError: " in told["kept"]["text"]
    assert squall("replay", "7", "--now").returncode == 2


@pytest.mark.parametrize("command", ["why", "shrink", "timeline", "export"])
def test_what_looks_at_a_kept_run_says_that_its_files_were_edited(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    script = tmp_path / "script.py"
    script.write_text(
        "import torch.distributed.rpc as rpc\nraise ValueError(3)\n", encoding="utf-8"
    )
    assert squall("run", str(script), "--workers", "2").returncode == 1
    name = str(kept()["name"])
    script.write_text("import torch.distributed.rpc as rpc\n", encoding="utf-8")
    output = ["-o", str(tmp_path / "page.html")] if command == "timeline" else []
    told = squall(command, name, *output).stderr
    assert f"edited since it was kept: {script} is another one from line 2" in told
    assert f"squall replay {name} --now" in told


def test_functions_warn_of_files_that_were_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    script = tmp_path / "script.py"
    script.write_text(
        "import torch.distributed.rpc as rpc\nraise ValueError(3)\n", encoding="utf-8"
    )
    found = fuzz(script, workers=2, seeds=1, shrink_s=0).finding
    assert found is not None
    script.write_text("import torch.distributed.rpc as rpc\n", encoding="utf-8")
    for look in (replay, shrink, why):
        with pytest.warns(UserWarning, match="edited since it was kept"):
            look(found.file)
