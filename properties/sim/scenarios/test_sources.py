"""A failure that was kept runs as it was, whatever has become of its files, and says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from squall.properties.support.commands import python, squall

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
    (tmp_path / "helper.py").write_text("def expected():\n    return 3\n")
    if kind == "script":
        (tmp_path / "script.py").write_text(SCRIPT)
        assert squall("run", str(tmp_path / "script.py"), "--workers", "2").returncode == 1
    else:
        (tmp_path / "test_it.py").write_text(TEST)
        assert python("-m", "pytest", "-q", str(tmp_path / "test_it.py")).returncode == 1
    name = str(kept()["name"])
    same = squall("replay", name)
    assert same.returncode == 1 and "edited" not in same.stderr

    (tmp_path / "helper.py").write_text("def expected():\n    return 2\n")
    was = squall("replay", name, "--json")
    assert was.returncode == 1 and json.loads(was.stdout)["digest_matches"]
    assert (
        f"edited since it was kept: {tmp_path / 'helper.py'} is another one from line 2"
        in was.stderr
    )
    assert "--now" in was.stderr
    assert squall("replay", name, "--now").returncode == 0
    assert squall("replay", "7", "--now").returncode == 2
