"""Processes: how a script's come up, what they share, and how they end."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
import torch

from squall.properties.support.playing import play, stock, write
from squall.sim.world.schedule import Order

RANK_STYLE = """
    import os, sys
    import torch
    import torch.distributed.rpc as rpc
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    def where():
        return os.environ["RANK"], os.getpid(), sys.argv[1:]

    if __name__ == "__main__":
        os.environ["SECRET"] = "of rank 0 alone" if rank == 0 else os.environ.get("SECRET", "none")
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=size)
        if rank == 0:
            print([rpc.rpc_sync(f"w{r}", where) for r in range(size)])
        print(rank, os.environ["SECRET"], os.environ["LOCAL_RANK"], os.environ["MASTER_PORT"])
        rpc.shutdown()
"""


def test_a_script_that_reads_its_rank_is_run_once_a_rank(tmp_path: Path) -> None:
    played = play(write(tmp_path, RANK_STYLE), "--x", "1", workers=3, environ={})
    assert sorted(played.lines) == [
        "0 of rank 0 alone 0 29500",
        "1 none 1 29500",
        "2 none 2 29500",
        "[('0', 1000, ['--x', '1']), ('1', 1001, ['--x', '1']), ('2', 1002, ['--x', '1'])]",
    ]
    assert [(r.rank, r.worker, r.exit_code) for r in played.results] == [
        (0, "w0", 0), (1, "w1", 0), (2, "w2", 0),
    ]  # fmt: skip


def test_without_a_rank_the_hint_says_what_to_give(tmp_path: Path) -> None:
    played = play(write(tmp_path, RANK_STYLE), environ={})
    (result,) = played.results
    assert result.exit_code == 1
    assert result.error is not None and result.error.type == "KeyError"
    assert result.hint is not None and "--workers" in result.hint


def test_placeholders_make_one_process_a_rank(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import argparse, os
        import torch, torch.distributed as dist
        parser = argparse.ArgumentParser()
        parser.add_argument("--rank", type=int)
        parser.add_argument("--of", type=int)
        args = parser.parse_args()
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "2000"
        dist.init_process_group("gloo", rank=args.rank, world_size=args.of)
        total = torch.tensor([args.rank + 1.0])
        dist.all_reduce(total)
        print(args.rank, total.item())
        """,
    )
    played = play(script, "--rank={rank}", "--of", "{world_size}", workers=3)
    assert sorted(played.lines) == ["0 6.0", "1 6.0", "2 6.0"]
    with pytest.raises(ValueError, match="number of workers"):
        play(script, "--rank={rank}")


def test_a_launcher_starts_its_own_processes_and_they_get_no_rank(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import os
        import torch.multiprocessing as mp
        def run(i, n):
            print(i, "RANK" in os.environ, os.environ["WORLD_SIZE"], mp.current_process().name)
        if __name__ == "__main__":
            size = int(os.environ["WORLD_SIZE"])
            mp.spawn(run, args=(size,), nprocs=size)
            print("end")
        """,
    )
    played = play(script, workers=2)
    assert played.lines == ["0 False 2 SpawnProcess-1", "1 False 2 SpawnProcess-2", "end"]


def test_a_failing_child_of_spawn_raises_in_the_parent_and_stops_its_siblings(
    tmp_path: Path,
) -> None:
    script = write(
        tmp_path,
        """
        import time
        import torch.multiprocessing as mp

        def deep(i):
            raise LookupError(f"no luck {i}")

        def run(i):
            time.sleep(1)
            if i == 1:
                deep(i)
            time.sleep(100)

        if __name__ == "__main__":
            try:
                mp.spawn(run, nprocs=3)
            except mp.ProcessRaisedException as error:
                print(error.error_index, error.error_pid)
                raise
        """,
    )
    played = play(script)
    assert played.lines == ["1 1002"]
    assert played.exit_codes == [1, -15, 1, -15]
    error = played.results[2].error
    assert error is not None and (error.type, error.message) == ("LookupError", "no luck 1")
    assert "in deep" in error.traceback and "/sim/" not in error.traceback
    parent = played.results[0].error
    assert parent is not None
    assert "-- Process 1 terminated with the following error:" in parent.message
    assert "LookupError: no luck 1" in played.err and "/sim/" not in played.err
    assert played.virtual_time_s < 2


def test_a_failing_rank_stops_the_others(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import os, time
        import torch.distributed as dist
        dist.init_process_group("gloo")
        if dist.get_rank() == 1:
            raise RuntimeError("rank 1 gives up")
        time.sleep(1000)
        """,
    )
    played = play(script, workers=3)
    assert played.exit_codes == [-15, 1, -15]
    assert played.stuck == [] and played.virtual_time_s < 1


def test_exit_codes(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import atexit, os, sys, threading, time
        import torch.multiprocessing as mp

        def run(i):
            atexit.register(print, "leaving", i)
            threading.Thread(target=lambda: (time.sleep(1), print("thread", i))).start()
            if i == 1:
                sys.exit(7)
            if i == 2:
                os._exit(9)
            if i == 3:
                sys.exit("a message")
            if i == 4:
                raise KeyError("four")

        if __name__ == "__main__":
            context = mp.get_context("spawn")
            children = [context.Process(target=run, args=(i,)) for i in range(5)]
            for child in children:
                child.start()
            for child in children:
                child.join()
            print([child.exitcode for child in children])
            sleeper = context.Process(target=time.sleep, args=(1000,), daemon=True)
            sleeper.start()
            time.sleep(0.1)
            print(sleeper.is_alive(), sleeper.exitcode)
            sleeper.terminate()
            sleeper.join()
            print(sleeper.is_alive(), sleeper.exitcode)
            context.Process(target=time.sleep, args=(1000,), daemon=True).start()
            sys.exit(3)
        """,
    )
    played = play(script)
    # A thread that is no daemon is waited for, but not by os._exit.
    assert sorted(played.lines[:8]) == [
        *(f"leaving {i}" for i in (0, 1, 3, 4)),
        *(f"thread {i}" for i in (0, 1, 3, 4)),
    ]
    assert played.lines[8:] == ["[0, 7, 9, 1, 1]", "True None", "False -15"]
    assert "a message" in played.err and "KeyError: 'four'" in played.err
    assert played.exit_codes == [3, 0, 7, 9, 1, 1, -15, -15]
    assert played.virtual_time_s < 2


def test_what_processes_share_and_what_they_copy(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import queue
        import torch
        import torch.multiprocessing as mp

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.zeros(3))

        def run(i, net, inbox, value, lock, table, pipe, gate, plain):
            gate.wait()
            with torch.no_grad():
                net.weight[i] = i + 1.0
            with lock:
                value.value += 1
            table[i] = {"net": net.weight.requires_grad, "kind": type(net) is Net}
            plain.append(i)
            inbox.put((i, torch.full((2,), float(i))))
            if i == 0:
                pipe.send({"hello": Net})

        if __name__ == "__main__":
            context = mp.get_context("spawn")
            net, inbox, value, plain = Net(), context.Queue(), context.Value("i", 0), []
            lock, gate, manager = context.Lock(), context.Event(), mp.Manager()
            table = manager.dict()
            here, there = mp.Pipe()
            args = (net, inbox, value, lock, table, there, gate, plain)
            started = mp.spawn(run, args=args, nprocs=3, join=False)
            try:
                inbox.get(timeout=1)
            except queue.Empty:
                print("nothing yet")
            gate.set()
            got = dict(inbox.get() for _ in range(3))
            while not started.join():
                pass
            print(net.weight.tolist(), value.value, sorted((k, v.tolist()) for k, v in got.items()))
            print(sorted(table.items()), plain, here.recv()["hello"] is Net)
            try:
                context.Process(target=lambda: 1).start()
            except Exception as error:
                print(type(error).__name__, error)
            try:
                here.send(net.weight * 2)
            except RuntimeError as error:
                print(str(error)[:43])
        """,
    )
    played = play(script)
    assert played.results[0].error is None, played.err
    *lines, refused, cowardly = played.lines
    assert lines == [
        "nothing yet",
        "[1.0, 2.0, 3.0] 3 [(0, [0.0, 0.0]), (1, [1.0, 1.0]), (2, [2.0, 2.0])]",
        "[(0, {'net': True, 'kind': True}), (1, {'net': True, 'kind': True}), "
        "(2, {'net': True, 'kind': True})] [] True",
    ]
    assert refused.startswith(("AttributeError Can't pickle", "PicklingError Can't pickle"))
    assert cowardly == "Cowardly refusing to serialize non-leaf ten"


def test_a_forked_child_finds_its_parents_globals(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import argparse, random
        import torch
        import torch.multiprocessing as mp
        print("imported")
        table = {}

        def child(i, queue):
            table["child"] = i
            queue.put((i, options.lr, sorted(table), random.random(), torch.rand(1).item()))

        if __name__ == "__main__":
            options = argparse.Namespace(lr=0.5)
            table["parent"] = 1
            random.seed(3)
            torch.manual_seed(3)
            queue = mp.Queue()
            children = [mp.Process(target=child, args=(i, queue)) for i in range(2)]
            local = "closure"
            children.append(mp.Process(target=lambda: queue.put((2, local, options.lr))))
            for each in children:
                each.start()
            for line in sorted(queue.get() for _ in children):
                print(line)
            for each in children:
                each.join()
            print(sorted(table))
        """,
    )
    import random

    played = play(script)
    generator = torch.Generator().manual_seed(3)
    drawn = (random.Random(3).random(), torch.rand(1, generator=generator).item())
    assert played.lines == [
        "imported",
        f"(0, 0.5, ['child', 'parent'], {drawn[0]}, {drawn[1]})",
        f"(1, 0.5, ['child', 'parent'], {drawn[0]}, {drawn[1]})",
        "(2, 'closure', 0.5)",
        "['parent']",
    ], played.err


def test_random_state_is_a_processs_own_and_the_same_in_every_run(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import os, random, time, uuid
        import numpy as np
        import torch
        import torch.multiprocessing as mp

        def draw():
            return random.random(), float(np.random.rand()), torch.rand(1).item()

        def run(i, queue):
            first = draw()
            random.seed(7), np.random.seed(7), torch.manual_seed(7)
            values = []
            for _ in range(3):
                values.append(draw())
                time.sleep(0.1)
            queue.put((i, first, values, uuid.uuid4().hex, float(np.random.default_rng().random())))

        if __name__ == "__main__":
            queue = mp.get_context("spawn").Queue()
            mp.spawn(run, args=(queue,), nprocs=2)
            for _ in range(2):
                print(queue.get())
        """,
    )
    first, again, other = (play(script, seed=seed) for seed in (0, 0, 1))
    assert first.lines == again.lines != other.lines
    (_, one, values, *_), (_, two, same, *_) = (eval(line) for line in first.lines)
    assert one != two and values == same
    import random

    import numpy as np

    generator = torch.Generator().manual_seed(7)
    twister, python = np.random.RandomState(7), random.Random(7)
    expected = [
        (python.random(), float(twister.rand()), torch.rand(1, generator=generator).item())
        for _ in range(3)
    ]
    assert values == expected


def test_the_outside_is_as_before(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import os, random, sys
        import torch
        os.environ["SQUALL_TEST"] = "inside"
        sys.argv.append("x")
        sys.path.insert(0, "/nowhere")
        sys.stdout = sys.stderr
        torch.manual_seed(1)
        random.seed(1)
        torch.set_default_dtype(torch.float64)
        """,
    )
    import random

    before = (sys.argv[:], sys.path[:], sys.stdout, sys.modules["__main__"], random.getstate())
    state = torch.get_rng_state()
    played = play(script)
    assert played.exit_codes == [0], played.err
    after = (sys.argv[:], sys.path[:], sys.stdout, sys.modules["__main__"], random.getstate())
    assert before == after
    assert "SQUALL_TEST" not in os.environ
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() == torch.float32


def test_collectives(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import os
        import torch
        import torch.distributed as dist
        dist.init_process_group("gloo")
        rank, size = dist.get_rank(), dist.get_world_size()
        mine = torch.tensor([float(rank)])

        def zeros(n=size):
            return [torch.zeros(1) for _ in range(n)]

        total, best = mine.clone(), mine.clone()
        dist.all_reduce(total)
        work = dist.all_reduce(best, op=dist.ReduceOp.MAX, async_op=True)
        work.wait()
        gathered = zeros()
        dist.all_gather(gathered, mine)
        sent = mine.clone()
        dist.broadcast(sent, src=2)
        reduced = mine.clone()
        dist.reduce(reduced, dst=0, op=dist.ReduceOp.PRODUCT)
        part = torch.zeros(1)
        dist.scatter(part, [torch.tensor([10.0 * i]) for i in range(size)] if rank == 1 else None, src=1)
        got = zeros() if rank == 0 else None
        dist.gather(mine, got, dst=0)
        swapped = zeros()
        dist.all_to_all(swapped, [torch.tensor([10.0 * rank + i]) for i in range(size)])
        objects = [None] * size
        dist.all_gather_object(objects, {"rank": rank})
        shared = [rank, "x"] if rank == 0 else [None, None]
        dist.broadcast_object_list(shared)
        late = [torch.full((1,), float(rank)) for _ in range(size)]
        works = [dist.broadcast(each, src=root, async_op=True) for root, each in enumerate(late)]
        [work.wait() for work in works]
        assert [each.item() for each in late] == list(range(size))
        right = (rank + 1) % size
        request = dist.isend(mine, dst=right)
        came = torch.zeros(1)
        who = dist.recv(came)
        request.wait()
        pair = dist.new_group([0, 2])
        both = mine.clone()
        if rank != 1:
            dist.all_reduce(both, group=pair)
        dist.barrier()
        flat = lambda tensors: [t.item() for t in tensors]
        print(rank, total.item(), best.item(), flat(gathered), sent.item(), part.item(),
              flat(got) if got else None, flat(swapped), [o["rank"] for o in objects], shared,
              came.item(), who, both.item(), dist.get_rank(pair), reduced.item() if rank == 0 else "-")
        dist.destroy_process_group()
        assert not dist.is_initialized()
        """,
    )
    played = play(script, workers=3)
    assert sorted(played.lines) == [
        "0 3.0 2.0 [0.0, 1.0, 2.0] 2.0 0.0 [0.0, 1.0, 2.0] [0.0, 10.0, 20.0] [0, 1, 2] [0, 'x'] 2.0 2 2.0 0 0.0",
        "1 3.0 2.0 [0.0, 1.0, 2.0] 2.0 10.0 None [1.0, 11.0, 21.0] [0, 1, 2] [0, 'x'] 0.0 0 1.0 -1 -",
        "2 3.0 2.0 [0.0, 1.0, 2.0] 2.0 20.0 None [2.0, 12.0, 22.0] [0, 1, 2] [0, 'x'] 1.0 1 2.0 1 -",
    ], played.err


def test_pools_of_processes_and_of_threads(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import time
        import torch.multiprocessing as mp
        from multiprocessing.pool import ThreadPool

        def square(x):
            time.sleep(0.1 * (5 - x))
            return x * x

        def refuse(x):
            raise ValueError(f"not {x}")

        if __name__ == "__main__":
            with ThreadPool(3) as pool:
                print(pool.map(square, range(5)))
            with mp.Pool(2) as pool:
                print(pool.map(square, range(5)), list(pool.imap_unordered(square, [1, 4])))
                try:
                    pool.apply(refuse, (1,))
                except ValueError as error:
                    print("ValueError", error)
        """,
    )
    played = play(script)
    assert played.lines == ["[0, 1, 4, 9, 16]", "[0, 1, 4, 9, 16] [16, 1]", "ValueError not 1"], (
        played.err
    )


@pytest.mark.parametrize("order", ["fifo", "random"])
def test_a_process_ends_though_its_threads_refuse_to(tmp_path: Path, order: Order) -> None:
    script = write(
        tmp_path,
        """
        import queue, threading, time
        box = queue.Queue()
        def stubborn():
            while True:
                try:
                    box.get(timeout=1)
                except:
                    continue
        def sleepy():
            while True:
                try:
                    time.sleep(1)
                except BaseException:
                    pass
        for target in (stubborn, sleepy):
            threading.Thread(target=target, daemon=True).start()
        time.sleep(3.5)
        print("bye")
        """,
    )
    played = play(script, order=order)
    assert played.lines == ["bye"] and played.exit_codes == [0] and played.err == ""


SEVERAL_THINGS = """
    import os, queue, threading, time
    import torch
    import torch.distributed.autograd as dist_autograd
    import torch.distributed.rpc as rpc
    from torch import nn, optim
    from torch.distributed.optim import DistributedOptimizer
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    calls = []

    class Half(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            torch.manual_seed(inputs)
            self.layer = nn.Linear(inputs, outputs)
        def forward(self, x):
            calls.append(threading.current_thread() is threading.main_thread())
            return torch.relu(self.layer(x))
        def parameter_rrefs(self):
            return [rpc.RRef(p) for p in self.parameters()]

    def report():
        return rank, len(calls), any(calls), torch.is_grad_enabled()

    if __name__ == "__main__":
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=size)
        if rank == 0:
            first, second = (rpc.remote(f"w{1 + i}", Half, args=shape) for i, shape in enumerate([(4, 6), (6, 2)]))
            parameters = first.rpc_sync().parameter_rrefs() + second.rpc_sync().parameter_rrefs()
            optimizer = DistributedOptimizer(optim.SGD, parameters, lr=0.1, momentum=0.9)
            torch.manual_seed(11)
            for step in range(4):
                x = torch.randn(8, 4)
                with dist_autograd.context() as context:
                    y = second.rpc_sync().forward(first.rpc_sync().forward(x))
                    loss = (y - 1).pow(2).mean()
                    dist_autograd.backward(context, [loss])
                    optimizer.step(context)
                print(f"{loss.item():.9f}")
            done = queue.Queue()
            def ask(name):
                with torch.no_grad():
                    done.put(rpc.rpc_async(name, report).wait())
            threads = [threading.Thread(target=ask, args=(f"w{r}",)) for r in (1, 2)]
            for thread in threads:
                thread.start()
            future = rpc.rpc_async("w1", time.sleep, args=(0.05,))
            while not future.done():
                time.sleep(0.005)
            for thread in threads:
                thread.join()
            print(sorted(done.get() for _ in threads))
        rpc.shutdown()
"""


def test_the_numbers_are_those_of_stock_pytorch(tmp_path: Path) -> None:
    script = write(tmp_path, SEVERAL_THINGS)
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    expected = stock(script, ranks=3, port=port)
    played = play(script, workers=3)
    assert played.lines == expected, played.err
    assert play(script, workers=3, order="random", seed=4).lines == expected
