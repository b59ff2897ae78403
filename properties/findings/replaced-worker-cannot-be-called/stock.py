import os
import tempfile
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def who():
    return os.getpid()


def known(name):
    return name in [each.name for each in rpc.api._get_current_rpc_agent().get_worker_infos()]


def wait_until(ask):
    while not ask():
        time.sleep(0.1)


def work(at, init, left):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init, rpc_timeout=10)
    if at == 2:
        left.wait()
    rpc.init_rpc("a" if at == 0 else "b", rank=min(at, 1), rpc_backend_options=options)
    if at == 0:
        wait_until(lambda: known("b"))
        rpc.rpc_sync("b", who)
        wait_until(lambda: not known("b"))
        left.set()
        wait_until(lambda: known("b"))
        try:
            report(False, f"the new b answered: {rpc.rpc_sync('b', who)}")
        except RuntimeError as error:
            report(True, f"a call to the new b: {str(error).splitlines()[0][:70]}")
    time.sleep(2 if at == 1 else 60)
    rpc.shutdown()


if __name__ == "__main__":
    init, left = f"file://{tempfile.mktemp()}", mp.get_context("spawn").Event()
    mp.spawn(work, (init, left), 3, join=False, daemon=True).processes[0].join()
