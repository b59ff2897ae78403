"""``multiprocessing`` on both engines is the standard library's: what a script does with it prints what it
prints outside."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from squall.properties.sim.scripts.compat.test_shared import same
from squall.properties.support.playing import write
from squall.properties.support.scripts import run_file
from squall.sim.names import EngineName

EVERYTHING = """
    import multiprocessing as mp
    import signal
    import sys
    import threading
    import time
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import managers, shared_memory
    from multiprocessing.connection import Client, Listener, wait


    class Tally:
        def __init__(self):
            self.seen = {}

        def add(self, key):
            self.seen[key] = self.seen.get(key, 0) + 1
            return self

        def total(self):
            return sum(self.seen.values())


    class TallyProxy(managers.BaseProxy):
        _exposed_ = ("add", "total")

        def add(self, key):
            return self._callmethod("add", (key,))

        def total(self):
            return self._callmethod("total")


    class Own(managers.BaseManager):
        pass


    class Remote(managers.BaseManager):
        pass


    Own.register("Same", proxytype=TallyProxy, create_method=False)
    Own.register("Tally", Tally, TallyProxy, method_to_typeid={"add": "Same"})
    Remote.register("Same", proxytype=TallyProxy)
    Remote.register("Tally")


    def begun(word):
        print("the manager's:", word, flush=True)


    def elsewhere(address, key):
        remote = Remote(address=address, authkey=b"secret")
        remote.connect()
        tally = remote.Tally()
        tally.add("x")
        print("elsewhere", tally.total(), flush=True)


    def square(x):
        return x * x


    def fails(x):
        raise LookupError(f"no {x}")


    def meets(i, barrier, condition, array, lines):
        array[i] = barrier.wait() >= 0
        with condition:
            condition.wait()
        lines.put(i)


    def answers(given, ends):
        with given[0] as end:
            end.send(("through a queue", end.readable))
        here = ends.get()
        here.send("of the other")


    def calls(address):
        with Client(address, authkey=b"key") as called:
            called.send([1, called.recv()])


    def writes(name, event):
        found = shared_memory.SharedMemory(name)
        found.buf[:3] = b"abc"
        found.close()
        event.set()


    def stubborn(pipe):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
        pipe.send("ready")
        time.sleep(100)


    def parent_of(queue):
        parent = mp.parent_process()
        queue.put((parent.name, mp.current_process().name))


    def main(method, handled):
        context = mp.get_context(method)
        with Own(ctx=context) as manager:
            tally = manager.Tally()
            print(tally.add("a").total(), tally.total(), type(tally).__name__)
        started = Own(address=("", 0), authkey=b"secret", ctx=context)
        started.start(begun, ("hello",))
        child = context.Process(target=elsewhere, args=(started.address, "x"))
        child.start()
        child.join()
        started.shutdown()
        with ProcessPoolExecutor(2, mp_context=context) as executor:
            print(list(executor.map(square, range(4))), executor.submit(square, 9).result())
            try:
                executor.submit(fails, 3).result()
            except LookupError as error:
                print(error)
        barrier, condition, lines = context.Barrier(3), context.Condition(), context.Queue()
        array = context.Array("i", 3)
        children = [
            context.Process(target=meets, args=(i, barrier, condition, array, lines)) for i in range(3)
        ]
        for child in children:
            child.start()
        time.sleep(2)
        print(len(mp.active_children()), children[0].join(0.1), children[0].exitcode)
        with condition:
            condition.notify_all()
        print(sorted(lines.get() for _ in children), list(array))
        wait([child.sentinel for child in children])
        for child in children:
            child.join()
        print(mp.active_children(), [child.exitcode for child in children])
        (mine, theirs), (here, there) = context.Pipe(), context.Pipe()
        ends = context.Queue()
        child = context.Process(target=answers, args=([theirs], ends))
        child.start()
        theirs.close()
        print(mine.recv())
        ends.put(there)
        print(here.recv())
        child.join()
        child.close()
        try:
            child.is_alive()
        except ValueError as error:
            print(error)
        with Listener(("localhost", 0), authkey=b"key") as listener:
            child = context.Process(target=calls, args=(listener.address,))
            child.start()
            with listener.accept() as accepted:
                accepted.send("hi")
                print(accepted.recv())
            child.join()
        memory, event = shared_memory.SharedMemory(create=True, size=8), context.Event()
        child = context.Process(target=writes, args=(memory.name, event))
        child.start()
        print(event.wait(5), bytes(memory.buf[:3]))
        child.join()
        memory.close()
        memory.unlink()
        child = context.Process(target=stubborn, args=(there,))
        child.start()
        print(here.recv())
        child.terminate()
        child.join()
        print(child.exitcode if handled else -15)
        child = context.Process(target=parent_of, args=(lines,), name="named")
        child.start()
        print(lines.get())
        child.join()
        lock = context.RLock()
        with lock, lock:
            found = []
            thread = threading.Thread(target=lambda: found.append(lock.acquire(False)))
            thread.start()
            thread.join()
            print(found)
        value = context.Value("d", 1.5)
        with value.get_lock():
            value.value += 1
        print(value.value, context.RawArray("i", [1, 2])[1])


    if __name__ == "__main__":
        main(sys.argv[1], "handled" in sys.argv)
    """

INHERITED = """
    import multiprocessing as mp
    import threading

    def main():
        queue, lock, done = mp.Queue(), threading.Lock(), mp.Event()
        counts = {"a": 1}
        def down(n):
            if n == 0:
                return "bottom"
            return down(n - 1)
        class Local:
            def __init__(self):
                self.lock = threading.Lock()

            def go(self, n):
                with self.lock, lock:
                    counts["a"] += 1
                    queue.put((n, down(3), counts["a"], default(2)))
                    done.set()
        default = lambda x, by=3: x * by
        local = Local()
        children = [mp.Process(target=local.go, args=(n,)) for n in range(2)]
        for child in children:
            child.start()
        print(sorted(queue.get() for _ in children), done.wait(1), counts)
        for child in children:
            child.join()
        print([child.exitcode for child in children])
        receive, send = mp.Pipe(False)
        def tell():
            receive.close()
            send.send("told")
        child = mp.Process(target=tell)
        child.start()
        send.close()
        print(receive.recv())
        try:
            receive.recv()
        except EOFError:
            print("end")
        child.join()
    main()
    """

HANGS = """
    import multiprocessing as mp

    if __name__ == "__main__":
        with mp.Manager() as manager:
            manager.Queue().get()
    """


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_what_is_built_on_processes(tmp_path: Path, method: str, engine: EngineName) -> None:
    # On the engine torch a signal ends a process, whatever its handlers are.
    handled = ["handled"] if engine == "port" else []
    same(write(tmp_path, EVERYTHING), method, *handled, engine=engine)


def test_a_forked_process_inherits_what_cannot_be_pickled(tmp_path: Path) -> None:
    """Functions and classes within functions, with what they refer to; the script need not ask whether it
    is the main module."""
    same(write(tmp_path, INHERITED))


def test_a_manager_keeps_no_hang_from_being_told(tmp_path: Path) -> None:
    run = run_file(write(tmp_path, HANGS), stdout=io.StringIO(), stderr=io.StringIO())
    assert run.outcome == "deadlock" and run.ended_s < 1


def test_runs_with_processes_are_repeatable_in_random_order(tmp_path: Path) -> None:
    script = write(tmp_path, EVERYTHING)
    digests = set()
    for _ in range(2):
        printed = io.StringIO()
        run = run_file(script, "spawn", "handled", order="random", seed=3, stdout=printed)
        assert run.errors == [], printed.getvalue()
        digests.add(run.digest)
    assert len(digests) == 1
