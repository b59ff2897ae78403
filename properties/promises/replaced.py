"""A group in which one worker is replaced while the others live on: the new one, of the same name, is another worker."""

import os
import time

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from promise import outcome, promise

MARK = []


class Held:
    def __init__(self, value):
        self.value = value

    def get(self):
        return self.value


def mark(value):
    MARK.append(value)
    return list(MARK)


def scale(x):
    return x * 3


def fetch(ref):
    return outcome(lambda: ref.to_here(timeout=5).value)


def leave():
    os.environ["LEAVE"] = "1"


def left():
    return os.environ.get("LEAVE")


def meet(name, rank):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29500")
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(
        init_method=f"tcp://localhost:{os.environ['MASTER_PORT']}", rpc_timeout=20
    )
    rpc.init_rpc(name, rank=rank, rpc_backend_options=options)


def known(name):
    return name in [each.name for each in rpc.api._get_current_rpc_agent().get_worker_infos()]


def wait_for(ask, limit_s=40.0):
    until = time.time() + limit_s
    while not ask() and time.time() < until:
        time.sleep(0.1)
    return ask()


def gradient():
    with dist_autograd.context() as context_id:
        x = torch.ones(2, requires_grad=True)
        y = rpc.rpc_sync("b", scale, (x,)) + rpc.remote("b", scale, (x,)).to_here()
        dist_autograd.backward(context_id, [y.sum()])
        return dist_autograd.get_gradients(context_id)[x].tolist()


def first(turn):
    """Lives on."""
    meet("a", 0)
    wait_for(lambda: known("b") and known("c"))
    for life in (1, 2):
        promise(
            f"life {life}: a new process",
            lambda life=life: rpc.rpc_sync("b", mark, (life,)),
            [life],
        )
        promise(f"life {life}: gradients", gradient, [6.0, 6.0])
        ref = rpc.remote("b", Held, (life,))
        promise(f"life {life}: a reference", lambda ref=ref: ref.to_here().value, life)
        promise(
            f"life {life}: of a third worker",
            lambda ref=ref: rpc.rpc_sync("c", fetch, (ref,)),
            life,
        )
        promise(f"life {life}: a helper", lambda ref=ref: ref.rpc_sync().get(), life)
        promise(f"life {life}: its info", lambda: rpc.get_worker_info("b").id, 1)
        promise(
            f"life {life}: a reference to here from there",
            lambda: rpc.rpc_sync("b", made_at_home).local_value().value,
            5,
        )
        del ref
        outcome(lambda: rpc.rpc_sync("b", leave))
        promise(f"life {life}: it is gone", lambda: wait_for(lambda: not known("b")), True)
        promise(
            f"life {life}: it is refused when gone",
            lambda: isinstance(outcome(lambda: rpc.rpc_sync("b", mark, (0,))), type),
            True,
        )
        promise(f"life {life}: the others live on", lambda: rpc.rpc_sync("c", scale, (2,)), 6)
        if life == 1:
            turn.set()
            promise("the next one comes", lambda: wait_for(lambda: known("b")), True)
    rpc.rpc_sync("c", leave)
    wait_for(lambda: not known("c"))
    rpc.shutdown()


def made_at_home():
    return rpc.remote("a", Held, (5,))


def second():
    """Is there, leaves, and another process comes with its name and rank."""
    meet("b", 1)
    wait_for(left, 60)
    rpc.shutdown()


def third():
    meet("c", 2)
    wait_for(left, 240)
    rpc.shutdown()


def run(at, turn):
    if at == 0:
        first(turn)
    elif at == 1:
        second()
    elif at == 2:
        third()
    else:
        turn.wait()
        second()


if __name__ == "__main__":
    context = mp.get_context("spawn")
    mp.spawn(run, args=(context.Event(),), nprocs=4)
