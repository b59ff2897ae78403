# run: --workers 2
# engines: port torch
# shows: AssertionError: \d+ threads run
# always: yes
# fix: print("gradient", gradient.tolist()) => over.set()
"""Each step has a watchdog, which complains when the step has taken a minute."""

import os
import threading

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc


def scale(x):
    return x * 3


def complain(step, over):
    if not over.wait(60):
        print("step", step, "takes long")
        over.wait()


def watched(step):
    over = threading.Event()
    threading.Thread(target=complain, args=(step, over), daemon=True).start()  # <- at fault
    return over


def train(steps):
    for step in range(steps):
        over = watched(step)
        with dist_autograd.context() as context_id:
            x = torch.full((2,), float(step), requires_grad=True)
            y = rpc.rpc_sync("worker1", scale, args=(x,))
            dist_autograd.backward(context_id, [y.sum()])
            gradient = dist_autograd.get_gradients(context_id)[x]
        print("gradient", gradient.tolist())
        watchdogs = [each for each in threading.enumerate() if "complain" in each.name]
        assert len(watchdogs) <= 3, f"{len(watchdogs)} threads run"


def main():
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 0:
        train(8)
    rpc.shutdown()


if __name__ == "__main__":
    main()
