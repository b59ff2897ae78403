"""asyncio in virtual time, on either engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.properties.sim.scripts.test_processes import run
from squall.properties.support.playing import stock, write
from squall.sim.names import EngineName

#: prints the same on stock PyTorch, but for what takes an hour
TWO_LOOPS = """
    import asyncio, os, sys, threading, time
    import torch
    import torch.distributed.rpc as rpc
    import torch.multiprocessing as mp

    HOUR_S = float(sys.argv[1])

    def slow(x):
        time.sleep(HOUR_S)
        return x * 2

    def answer(loop, future):
        # A callback of torch's runs on one of its threads.
        there = loop.create_future()
        future.then(lambda done: loop.call_soon_threadsafe(there.set_result, done.value()))
        return there

    async def ticker(log):
        while True:
            await asyncio.sleep(HOUR_S / 4)
            log.append("tick")

    async def main(rank):
        loop = asyncio.get_running_loop()
        log, other = [], f"w{1 - rank}"
        ticking = asyncio.create_task(ticker(log))
        began = time.monotonic()
        one, two = torch.ones(1), torch.ones(2)
        found = await asyncio.gather(
            answer(loop, rpc.rpc_async(other, slow, args=(one,), timeout=0)),
            asyncio.to_thread(rpc.rpc_sync, other, slow, args=(two,), timeout=0),
            loop.run_in_executor(None, slow, 3),
        )
        took = time.monotonic() - began
        ticking.cancel()
        try:
            await ticking
        except asyncio.CancelledError:
            log.append("cancelled")
        try:
            await asyncio.wait_for(asyncio.Event().wait(), HOUR_S / 4)
        except asyncio.TimeoutError:
            log.append("timeout")
        queue = asyncio.Queue()
        threading.Timer(HOUR_S / 4, lambda: loop.call_soon_threadsafe(queue.put_nowait, rank)).start()
        return [each.tolist() if hasattr(each, "tolist") else each for each in found], log[-2:], \\
            HOUR_S <= took < 1.5 * HOUR_S, await queue.get()

    def work(rank):
        os.environ["MASTER_ADDR"] = "localhost"
        os.environ.setdefault("MASTER_PORT", "29500")
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
        print(rank, asyncio.run(main(rank)), flush=True)
        rpc.shutdown()

    if __name__ == "__main__":
        mp.spawn(work, nprocs=2)
"""


def test_tasks_threads_and_futures_of_torch_are_awaited(
    tmp_path: Path, engine: EngineName, free_port: int
) -> None:
    found, said = run(tmp_path, engine, TWO_LOOPS, "3600")
    assert (found.outcome, found.errors) == ("ok", []), said
    assert 3600 < found.ended_s < 3600 * 1.6
    lines = stock(write(tmp_path, TWO_LOOPS), "1", port=free_port)
    assert sorted(said.splitlines()) == sorted(lines) and len(lines) == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("asyncio.run(asyncio.sleep(2)); print('slept')", "slept"),
        ("print(asyncio.run(asyncio.to_thread(lambda: 7)))", "7"),
        (
            "loop = asyncio.new_event_loop(); print(loop.run_until_complete(asyncio.sleep(1, 5)))",
            "5",
        ),
    ],
)
def test_a_line_of_asyncio(tmp_path: Path, engine: EngineName, source: str, says: str) -> None:
    found, said = run(tmp_path, engine, f"import asyncio\n{source}")
    assert (found.errors, found.waits, said) == ([], [], f"{says}\n")


@pytest.mark.sampled(1)
def test_what_reaches_outside_of_the_simulation_is_refused(
    tmp_path: Path, engine: EngineName
) -> None:
    source = "import asyncio\nasyncio.run(asyncio.create_subprocess_exec('true'))"
    found, _ = run(tmp_path, engine, source)
    (error,) = found.errors
    assert error.type == "NotImplementedError" and "no subprocess_exec" in error.message


def test_a_loop_that_polls_lets_time_pass(tmp_path: Path, engine: EngineName) -> None:
    source = """
        import asyncio, time

        async def main():
            end = time.monotonic() + 5
            while time.monotonic() < end:
                await asyncio.sleep(0)
            print("over")

        asyncio.run(main())
    """
    found, said = run(tmp_path, engine, source)
    assert (found.errors, said) == ([], "over\n")
