"""``multiprocessing.Process`` in scripts on PyTorch's compiled engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.properties.support.commands import squall

pytestmark = pytest.mark.usefixtures("compiled_engine")

_CHILDREN = """
import multiprocessing
import os
import sys
import time

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc


def train(rank, method):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        x = torch.ones(2, requires_grad=True)
        with dist_autograd.context() as context_id:
            loss = rpc.rpc_sync("w1", torch.mul, args=(x, 3)).sum()
            dist_autograd.backward(context_id, [loss])
            print(method, dist_autograd.get_gradients(context_id)[x].tolist())
        rpc.rpc_async("w1", time.sleep, args=(2.0,)).wait()
    rpc.shutdown()


def leave(code):
    time.sleep(1.0)
    sys.exit(code)


def stay():
    time.sleep(1000.0)


def fail():
    print(os.environ["GIVEN"])
    raise ValueError("as it should")


class Named(multiprocessing.get_context("spawn").Process):
    def __init__(self, word):
        super().__init__(name=word)
        self.word = word

    def run(self):
        print(self.word, multiprocessing.current_process().name)


if __name__ == "__main__":
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29500"
    for method in ("spawn", "fork"):
        context = multiprocessing.get_context(method)
        pair = [context.Process(target=train, args=(rank, method)) for rank in range(2)]
        for each in pair:
            each.start()
        for each in pair:
            each.join()
        print([each.exitcode for each in pair])
    began = time.time()
    one = multiprocessing.Process(target=leave, args=(7,))
    one.start()
    one.join(0.5)
    print(one.exitcode, one.is_alive(), round(time.time() - began, 3))
    one.join()
    print(one.exitcode, one.is_alive(), round(time.time() - began, 3))
    two = multiprocessing.Process(target=stay)
    two.start()
    two.terminate()
    two.join()
    print(two.exitcode, multiprocessing.active_children())
    os.environ["GIVEN"] = "inherited"
    three = multiprocessing.Process(target=fail)
    three.start()
    while three.is_alive():
        pass
    print(three.exitcode)
    Named("four").start()
    multiprocessing.Process(target=stay, daemon=True).start()
"""


@pytest.mark.sampled(1)
def test_children_are_the_same_on_both_engines(tmp_path: Path) -> None:
    script = tmp_path / "children.py"
    script.write_text(_CHILDREN, encoding="utf-8")
    said = []
    for engine in ("torch", "port"):
        done = squall("run", str(script), "--engine", engine, "--latency", "0", "--no-check")
        assert "ValueError: as it should" in done.stderr
        said.append(done.stdout.split("\n\n")[0].rstrip().splitlines())
    assert said[0] == [
        "spawn [3.0, 3.0]",
        "[0, 0]",
        "fork [3.0, 3.0]",
        "[0, 0]",
        "None True 0.5",
        "7 False 1.0",
        "-15 []",
        "inherited",
        "1",
        "four four",
    ]
    assert said[1] == said[0]


def test_a_process_ends_at_once_by_itself_and_so_does_one_that_it_forks(tmp_path: Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text(
        "import os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)\n"
        "os._exit(0)\n",
        encoding="utf-8",
    )
    done = squall("run", str(script), "--engine", "torch", "--allow-unchecked")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "7"), done.stderr


def test_a_new_process_asks_for_the_debug_level_again_and_one_that_is_forked_does_not(
    tmp_path: Path,
) -> None:
    script = tmp_path / "levels.py"
    script.write_text(
        "import multiprocessing, os\n"
        "import torch.distributed as dist\n"
        "def show():\n"
        "    print(dist.get_debug_level().name, flush=True)\n"
        "if __name__ == '__main__':\n"
        "    os.environ['TORCH_DISTRIBUTED_DEBUG'] = 'DETAIL'\n"
        "    for method in ('spawn', 'fork'):\n"
        "        child = multiprocessing.get_context(method).Process(target=show)\n"
        "        child.start()\n"
        "        child.join()\n",
        encoding="utf-8",
    )
    done = squall("run", str(script), "--engine", "torch", "--allow-unchecked")
    assert done.stdout.splitlines()[:2] == ["DETAIL", "OFF"], done.stderr
