"""What processes share by ``multiprocessing`` and stores does what it does between real processes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from squall.properties.support.commands import stock
from squall.properties.support.playing import write
from squall.properties.support.scripts import run_file
from squall.sim.names import EngineName

SHARED = """
    import multiprocessing as mp
    import pickle
    from multiprocessing.managers import BaseManager

    class Counter:
        def __init__(self, n):
            self.n = n
        def add(self, by=1):
            self.n += by
            return self.n
        def _hidden(self):
            pass

    class Own(BaseManager):
        pass

    Own.register("Counter", Counter)

    def child(counter, end, queue):
        counter.add(5)
        end.send_bytes(b"abcdef", 1, 3)
        end.send_bytes(bytearray(b"xyz"))
        end.send({"k": 1})
        end.send_bytes(pickle.dumps("pickled"))
        queue.put("first")

    def tried(call, *args):
        try:
            return call(*args)
        except Exception as error:
            return type(error).__name__

    if __name__ == "__main__":
        with Own() as manager, mp.Manager() as sync:
            counter, queue = manager.Counter(1), sync.JoinableQueue()
            here, there = mp.Pipe()
            process = mp.Process(target=child, args=(counter, there, queue))
            process.start()
            buffer = bytearray(5)
            print(here.recv_bytes(), here.recv_bytes_into(buffer, 1), buffer, here.recv(), here.recv())
            process.join()
            print(counter.add(), hasattr(counter, "_hidden"), queue.get(), queue.task_done())
            print(list(sync.Array("i", [1, 2])), sync.Lock().acquire(), sync.Value("i", 3).value)
        print(here.closed, here.readable, here.writable, len(mp.current_process().authkey) > 0)
        there.send_bytes(b"long")
        print(tried(here.recv_bytes_into, bytearray(2)), tried(there.send_bytes, b"x", 2))
        receiver, sender = mp.Pipe(duplex=False)
        print(sender.readable, receiver.writable, tried(receiver.send, 1), tried(sender.recv_bytes))
        simple = mp.SimpleQueue()
        simple.put(1)
        print(simple.empty(), simple.get(), simple.empty(), hasattr(simple, "qsize"))
    """

CLOSED = """
    import multiprocessing as mp
    import sys
    import time

    def tried(call, *args):
        try:
            return call(*args)
        except Exception as error:
            return type(error).__name__, str(error)

    def reads(receiver, sender):
        sender.close()
        found = []
        while True:
            try:
                found.append(receiver.recv())
            except EOFError:
                print("all", found, receiver.poll(), receiver.closed, sender.closed, flush=True)
                return

    def writes(end):
        with end:
            end.send("last")

    def ends(end):
        sys.exit(3)

    if __name__ == "__main__":
        mp.set_start_method(sys.argv[1])
        receiver, sender = mp.Pipe(duplex=False)
        child = mp.Process(target=reads, args=(receiver, sender))
        child.start()
        receiver.close()
        sender.send(1)
        sender.send(2)
        time.sleep(0.5)
        sender.close()
        child.join()
        print(receiver.closed, tried(receiver.recv), tried(sender.send, 1), tried(sender.fileno))
        for target in (writes, ends):
            here, there = mp.Pipe()
            child = mp.Process(target=target, args=(there,))
            child.start()
            there.close()
            print(tried(here.recv), tried(here.recv), here.poll(1))
            child.join()
            print(tried(here.send, 1), child.exitcode)
            here.close()
            print(here.closed, tried(here.poll), tried(here.close))
    """

EXCHANGED = """
    import multiprocessing as mp
    import sys
    import time
    from multiprocessing.managers import BaseManager

    import torch
    import torch.multiprocessing

    def child(shared, listed, queue, event, lock, value):
        with lock:
            shared["x"] = listed[0] + 1
            listed.append(7)
        queue.put("from the child")
        event.wait()
        value.value += 1
        queue.put("after")

    def tensors(there, back):
        there.put(torch.arange(4.0))
        back.get().add_(1)
        there.put("done")

    def square(x):
        time.sleep(0.1)
        return x * x

    if __name__ == "__main__":
        mp.set_start_method(sys.argv[1])
        with mp.Manager() as manager:
            shared, listed = manager.dict(), manager.list([1, 2])
            queue, event, lock, value = mp.Queue(), mp.Event(), mp.Lock(), mp.Value("i", 3)
            process = mp.Process(target=child, args=(shared, listed, queue, event, lock, value))
            process.start()
            print(queue.get(), dict(shared), list(listed))
            event.set()
            print(queue.get(timeout=5))
            process.join()
            print(value.value, queue.empty(), process.exitcode)
            queue = manager.Queue()
            queue.put(3)
            print(queue.get(), queue.qsize(), manager.Event().is_set())
            names = manager.Namespace()
            names.a = 3
            print(names.a)
        with mp.Pool(2) as pool:
            print(pool.map(square, range(5)), pool.apply_async(square, (9,)).get(3))
        print(mp.Barrier(1).wait())
        semaphore = mp.BoundedSemaphore(2)
        print([semaphore.acquire(block=wait) for wait in (True, True, False)], semaphore.get_value())
        print(semaphore.acquire(timeout=0.1), semaphore.acquire(True, 0.1), mp.RLock().acquire())
        joinable = mp.JoinableQueue()
        joinable.put(1)
        print(joinable.get(), joinable.task_done(), joinable.join())
        there, back = torch.multiprocessing.Queue(), torch.multiprocessing.Queue()
        process = mp.Process(target=tensors, args=(there, back))
        process.start()
        values = torch.zeros(2).share_memory_()
        print(there.get(), back.put(values), there.get(), values)
        process.join()
    """

STORES = """
    import sys, threading
    from datetime import timedelta
    import torch.distributed as dist

    def tried(call, *args):
        try:
            return call(*args)
        except Exception as error:
            return type(error).__name__

    def said(store):
        store.set_timeout(timedelta(seconds=0.5))
        print(type(store).__name__, store.timeout, store.has_extended_api())
        store.set("k", "v")
        store.add("n", 3)
        print(store.num_keys(), sorted(set(store.list_keys()) - {"efcount/"}))
        for value in ("x", b"y"):
            tried(store.queue_push, "q", value)
        print(tried(store.queue_len, "q"), store.check(["q"]), store.check(["k", "n"]))
        pop = store.queue_pop
        print(tried(pop, "q"), tried(pop, "q"), tried(pop, "q", False), tried(pop, "q"))
        print(store.check(["q"]), tried(store.queue_len, "none"))
        print(tried(store.wait, ["k"]), tried(store.wait, ["none"], timedelta(seconds=0.1)))
        other = store.clone()
        other.set("m", "w")
        print(type(other) is type(store), store.multi_get(["k", "m"]), store.delete_key("m"))
        if "barrier" not in dir(dist.Store):  # before torch 2.13
            return
        store.barrier("b", 1)
        thread = threading.Thread(target=other.barrier, args=("c", 2))
        thread.start()
        store.barrier("c", 2)
        thread.join()
        print(tried(store.barrier, "d", 2, timedelta(seconds=0.1)))

    base = dist.HashStore()
    said(base)
    said(dist.PrefixStore("p", base))
    tcp = dist.TCPStore("localhost", 0, 1, True)
    said(tcp)
    prefixed = dist.PrefixStore("in", dist.PrefixStore("out", tcp))
    prefixed.set("own", "1")
    print(prefixed.underlying_store.list_keys(), prefixed.list_keys(), prefixed.underlying_store is tcp)
    print([key for key in tcp.list_keys() if "own" in key], tcp.host, tcp.port > 0)
    file = dist.FileStore(sys.argv[1], 1)
    print(file.path == sys.argv[1], file.has_extended_api(), tried(file.queue_push, "q", "x"))
    waiting = threading.Thread(target=lambda: print(base.queue_pop("late")))
    waiting.start()
    base.queue_push("late", "come")
    waiting.join()
    """

TOLD = """
    import inspect, multiprocessing, os, pickle, threading, time
    import torch.distributed as dist, torch.distributed.rpc as rpc

    class Own(multiprocessing.Process):
        def __init__(self, x):
            super().__init__()

    class Plain(multiprocessing.Process):
        pass

    for told in (rpc.rpc_sync, rpc.init_rpc, time.sleep, os.getenv, os.kill, dist.all_reduce,
                 multiprocessing.Queue, multiprocessing.Process, Own, Plain, dist.group):
        print(told.__name__, len(told.__doc__ or ""), end=" ")
        try:
            print(inspect.signature(told))
        except ValueError:
            print("compiled")
    print(inspect.signature(Own(1).join), inspect.signature(rpc.RRef.to_here))
    print(pickle.loads(pickle.dumps(time.sleep)) is time.sleep)
    print("RpcState" in dir(rpc.api), "threading" in dir(rpc.api), rpc.api.threading is threading)
    rpc.api.mine = 1
    print("mine" in dir(rpc.api), rpc.api.mine, [n for n in dir(rpc) if not hasattr(rpc, n)])
    """


def same(script: Path, *args: str, engine: EngineName = "port") -> None:
    real = stock(str(script), *args)
    printed = io.StringIO()
    run_file(script, *args, engine=engine, stdout=printed, stderr=printed)
    assert printed.getvalue() == real.stdout, real.stderr


@pytest.mark.sampled(1)
def test_pipes_queues_and_managers(tmp_path: Path, engine: EngineName) -> None:
    same(write(tmp_path, SHARED), engine=engine)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pipes_end_when_nobody_has_their_other_end(
    tmp_path: Path, method: str, engine: EngineName
) -> None:
    same(write(tmp_path, CLOSED), method, engine=engine)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_processes_exchange(tmp_path: Path, method: str, engine: EngineName) -> None:
    same(write(tmp_path, EXCHANGED), method, engine=engine)


def test_stores(tmp_path: Path) -> None:
    same(write(tmp_path, STORES), str(tmp_path / "store"))


def test_what_replaced_things_say_of_themselves(tmp_path: Path) -> None:
    same(write(tmp_path, TOLD.replace('len(told.__doc__ or "")', "len(told.__doc__ or '')")))
