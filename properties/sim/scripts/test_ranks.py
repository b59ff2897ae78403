"""Command lines of ranks: each a process of its own, with torchrun's variables, on either engine."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from squall.model.events.run import Run
from squall.properties.support.playing import write
from squall.sim.faults.plan import Crash, Plan
from squall.sim.names import EngineName
from squall.sim.scenario import CommandLine, Scenario, Script, World
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.file import ScenarioError, dump_scenario, load_scenario
from squall.sim.scripts.ranks import command_line, environment, has_ranks
from squall.sim.scripts.ranks_file import RanksError, read_ranks
from squall.sim.scripts.read_script import read_script

TRAIN = """
    import argparse, os, torch
    import torch.distributed.autograd as dist_autograd
    import torch.distributed.rpc as rpc
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, required=True)
    args = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29512")

    def double(x):
        return x * 2

    rpc.init_rpc(f"w{args.rank}", rank=args.rank, world_size=args.world_size)
    if args.rank == 0:
        with dist_autograd.context() as context:
            x = torch.ones(2, requires_grad=True)
            dist_autograd.backward(context, [rpc.rpc_sync("w1", double, args=(x,)).sum()])
            print(dist_autograd.get_gradients(context)[x].tolist())
    rpc.shutdown()
"""
SERVER = """
    import sys
    import torch.distributed.rpc as rpc
    import beside
    print("server", sys.argv[1:], beside.NAME)
    rpc.init_rpc("server", rank=0, world_size=3)
    rpc.shutdown()
"""
TRAINER = """
    import os, sys, torch
    import torch.distributed.rpc as rpc
    import beside
    rank = int(sys.argv[sys.argv.index("--id") + 1])
    rpc.init_rpc(f"trainer{rank}", rank=rank, world_size=3)
    print("trainer", rank, rpc.rpc_sync("server", torch.add, args=(torch.ones(1), rank)).item(),
          beside.NAME, os.environ.get("ROLE"))
    rpc.shutdown()
"""


def run(script: Script, engine: EngineName, plan: Plan | None = None) -> tuple[Run, list[str]]:
    printed = io.StringIO()
    world = World() if plan is None else World(faults=plan)
    scenario = Scenario(work=script, engine=engine, world=world)
    found = ENGINES[engine].run(scenario, stdout=printed, stderr=io.StringIO())
    return found, sorted(printed.getvalue().splitlines())


def roles(folder: Path) -> Path:
    write(folder, SERVER, "server.py")
    write(folder, "NAME = 'top'", "beside.py")
    write(folder, TRAINER, "sub/trainer.py")
    write(folder, "NAME = 'sub'", "sub/beside.py")
    return write(
        folder,
        """
        [[rank]]
        script = "server.py"
        args = ["--role", "server"]

        [[rank]]
        script = "sub/trainer.py"
        args = ["--id", "{rank}"]
        environ = { ROLE = "{rank} of {workers}" }
        count = 2
        """,
        "ranks.toml",
    )


def test_placeholders_give_each_rank_arguments_of_its_own(
    tmp_path: Path, engine: EngineName
) -> None:
    args = ("--rank={rank}", "--world-size", "{workers}")
    script = read_script(write(tmp_path, TRAIN), args, workers=2)
    found, lines = run(script, engine)
    assert (found.outcome, found.hints, lines) == ("ok", [], ["[2.0, 2.0]"])
    assert found.gradients is not None and found.gradients.compared == 1


def test_each_rank_may_have_a_file_of_its_own(tmp_path: Path, engine: EngineName) -> None:
    """With its own directory in front of ``sys.path``."""
    found, lines = run(read_ranks(roles(tmp_path)), engine)
    assert found.outcome == "ok" and found.workers == 3
    assert lines == [
        "server ['--role', 'server'] top",
        "trainer 1 2.0 sub 1 of 3",
        "trainer 2 3.0 sub 2 of 3",
    ]


@pytest.mark.sampled(1)
def test_ranks_find_what_torchrun_sets(tmp_path: Path, engine: EngineName) -> None:
    script = write(
        tmp_path,
        """
        import os, sys
        names = "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK"
        print(*(os.environ[name] for name in names), os.environ["TORCHELASTIC_RUN_ID"])
        print(os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"].isdigit())
        """,
    )
    _, lines = run(read_script(script, ("{rank}",), workers=2), engine)
    assert lines == ["0 0 2 2 0 0 squall", "1 1 2 2 0 1 squall", *["localhost True"] * 2]
    # torchrun's names; what they are there is torchrun's affair
    stock = subprocess.run(
        [shutil.which("torchrun") or f"{Path(sys.executable).parent}/torchrun", "--standalone",
         "--nproc-per-node=1", str(write(tmp_path, "import os; print(*os.environ)", "names.py"))],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True,
        timeout=120,
    )  # fmt: skip
    line = CommandLine(path="names.py", text="")
    assert set(environment({}, 0, 1, line)) <= set(stock.stdout.split())


def test_the_agent_of_torchrun_keeps_a_store(tmp_path: Path, engine: EngineName) -> None:
    """As `torchrun --nproc-per-node=3` has it: where the ranks meet is a store, and none of them is its master."""
    source = """
        import os
        import torch.distributed as dist

        where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store, own = dist.TCPStore(*where, is_master=False), os.environ["RANK"]
        store.set(own, f"from {own}")
        print(own, store.get(str((int(own) + 1) % 3)).decode())
    """
    found, lines = run(read_script(write(tmp_path, source), workers=3), engine)
    assert not found.errors and lines == ["0 from 1", "1 from 2", "2 from 0"]


def test_a_rank_that_fails_ends_the_others(tmp_path: Path, engine: EngineName) -> None:
    source = """
        import sys, torch.distributed.rpc as rpc
        if sys.argv[1] == "1":
            raise ValueError("not today")
        rpc.init_rpc("w0", rank=0, world_size=2)
    """
    found, _ = run(read_script(write(tmp_path, source), ("{rank}",), workers=2), engine)
    assert (found.outcome, found.waits) == ("error", [])
    (error,) = found.errors
    assert (error.type, error.message) == ("ValueError", "not today")
    assert "script.py" in error.traceback and "/sim/" not in error.traceback


def test_processes_of_a_rank_run_its_file_and_inherit_what_it_has_set(
    tmp_path: Path, engine: EngineName
) -> None:
    write(tmp_path, "print('first')", "first.py")
    write(
        tmp_path,
        """
        import os
        import torch.multiprocessing as mp

        def child(number):
            print("child", number, os.environ["MINE"], "RANK" in os.environ, __file__[-9:])

        if __name__ == "__main__":
            os.environ["MINE"] = "rank " + os.environ["RANK"]
            mp.spawn(child, nprocs=2)
        """,
        "second.py",
    )
    script = read_script(tmp_path / "first.py", others=[(tmp_path / "second.py", ())])
    found, lines = run(script, engine)
    assert found.errors == []
    assert lines == [
        "child 0 rank 1 True second.py", "child 1 rank 1 True second.py", "first",
    ]  # fmt: skip


def test_processes_that_a_rank_starts_in_a_group_find_its_rank(
    tmp_path: Path, engine: EngineName
) -> None:
    write(
        tmp_path,
        """
        import os, subprocess, sys
        import torch.distributed as dist
        import torch.multiprocessing as mp

        def child(number):
            print("child of", os.environ.get("RANK"))

        if __name__ == "__main__":
            dist.init_process_group("gloo")
            mp.spawn(child, nprocs=1)
            code = "import os; print('program of', os.environ['LOCAL_RANK'])"
            subprocess.run([sys.executable, "-c", code])
            dist.destroy_process_group()
        """,
    )
    found, lines = run(read_script(tmp_path / "script.py", workers=2), engine)
    assert found.errors == []
    assert lines == ["child of 0", "child of 1", "program of 0", "program of 1"]


def test_without_a_number_of_workers_nobody_sets_anything(
    tmp_path: Path, engine: EngineName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``python script.py`` has it; and the hint says what to give."""
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    source = "import torch.distributed.rpc as rpc\nrpc.init_rpc('w', rank=0, world_size=2)"
    found, _ = run(read_script(write(tmp_path, source)), engine)
    (error,) = found.errors
    assert error.type == "ValueError" and "MASTER_ADDR expected, but not set" in error.message
    (hint,) = found.hints
    assert "--workers 2" in hint


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("args", "workers", "type"),
    [
        ((), None, "Exited"),
        (("--rank", "0", "--world-size", "2"), None, "DistStoreError"),
        (("--rank", "0", "--world-size", "2"), 2, "RuntimeError"),
    ],
)
def test_a_script_started_in_another_way_than_it_needs_gets_the_right_command(
    tmp_path: Path, engine: EngineName, args: tuple[str, ...], workers: int | None, type: str
) -> None:
    found, _ = run(read_script(write(tmp_path, TRAIN), args, workers=workers), engine)
    assert {error.type for error in found.errors} == {type}
    (hint,) = found.hints
    command = "squall run --workers 2 "
    assert command in hint and hint.endswith("script.py --rank {rank} --world-size {workers}")


def test_more_ranks_than_asked_for_are_told(tmp_path: Path, engine: EngineName) -> None:
    source = """
        import os, torch.distributed.rpc as rpc
        rank = int(os.environ["RANK"])
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
        rpc.shutdown()
    """
    found, _ = run(read_script(write(tmp_path, source), workers=1), engine)
    (hint,) = found.hints
    assert "a group of 2 processes" in hint and "give --workers 2" in hint


def test_a_crashed_rank_is_started_again_with_its_own_command_line(tmp_path: Path) -> None:
    source = """
        import sys, time, torch.distributed.rpc as rpc
        print("began", sys.argv[1])
        rpc.init_rpc(f"w{sys.argv[1]}", rank=int(sys.argv[1]), world_size=2)
        time.sleep(10)
        rpc.shutdown(graceful=False)
    """
    script = read_script(write(tmp_path, source), ("{rank}",), workers=2)
    plan = Plan(workers=(Crash(worker=1, at_s=1.0, restart_after_s=1.0),))
    _, lines = run(script, "port", plan)
    assert lines == ["began 0", "began 1", "began 1"]


def test_a_scenario_file_has_every_command_line(tmp_path: Path) -> None:
    scenario = Scenario(work=read_ranks(roles(tmp_path)), seed=3)
    again = load_scenario(dump_scenario(scenario))
    assert again == scenario
    assert again.script is not None and has_ranks(again.script)
    assert command_line(again.script, 2).args == ("--id", "2")
    broken = dump_scenario(scenario).replace("import os, sys, torch", "import os,, sys")
    with pytest.raises(ScenarioError, match=r"scenario.script.others\[0\].text: is no Python"):
        load_scenario(broken)


def test_a_number_of_workers_that_is_not_that_of_the_command_lines_is_refused() -> None:
    line = CommandLine(path="a.py", text="")
    with pytest.raises(ValueError, match=r"Script.workers: 3 is wrong: should be 2"):
        Script(path="a.py", text="", workers=3, others=(line,))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[rank]", "is not TOML"),
        ("", "file.rank: is missing"),
        ("rank = []", "file.rank: is empty, expected a [[rank]] for each rank"),
        ("[[rank]]\nargs = []", "file.rank[0].script: is missing"),
        ("[[rank]]\nscript = 'no.py'", "file.rank[0].script: there is no file"),
        ("[[rank]]\nscript = 'a.py'\nfoo = 1", "file.rank[0].foo: is no field"),
        ("[[rank]]\nscript = 'a.py'\ncount = 0", "file.rank[0].count: 0 is wrong"),
        ("[[rank]]\nscript = 'a.py'\nargs = [2001-01-01, 1]", "file.rank[0].args[1]: 1 is wrong"),
        ("[[rank]]\nscript = 'b.py'", "file.rank[0].script: "),
    ],
)
def test_a_file_of_ranks_that_is_wrong_is_told_where(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "a.py").write_text("", encoding="utf-8")
    (tmp_path / "b.py").write_text("def", encoding="utf-8")
    (tmp_path / "ranks.toml").write_text(text, encoding="utf-8")
    with pytest.raises(RanksError) as told:
        read_ranks(tmp_path / "ranks.toml")
    assert str(told.value).startswith(says)
