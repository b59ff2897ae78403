"""Several contexts at once: two trainers share one parameter, and one process holds two."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

shared = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))


def use(x):
    return (shared * x).sum()


def gradient(context_id):
    return dist_autograd.get_gradients(context_id)[shared].tolist()


def valid(context_id):
    try:
        dist_autograd._retrieve_context(context_id)
    except RuntimeError as e:
        return str(e).splitlines()[0].split(" (")[0].replace(str(context_id), "N")
    return "valid"


def train(factor):
    x = torch.full((3,), float(factor), dtype=torch.float64, requires_grad=True)
    found = []
    for step in range(3):
        with dist_autograd.context() as context_id:
            loss = rpc.rpc_sync("ps", use, args=(x * (step + 1),))
            dist_autograd.backward(context_id, [loss])
            here = dist_autograd.get_gradients(context_id)[x].tolist()
            found.append((loss.item(), here, rpc.rpc_sync("ps", gradient, args=(context_id,))))
    return found


def run(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29507")
    name = "ps" if rank == 0 else f"trainer{rank}"
    rpc.init_rpc(name, rank=rank, world_size=world_size)
    if rank == 0:
        futs = [rpc.rpc_async(f"trainer{r}", train, args=(r,)) for r in range(1, world_size)]
        for r, fut in enumerate(futs, 1):
            for line in fut.wait():
                print("trainer", r, line)
    rpc.shutdown()
    # A second group in the same processes.
    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
    rpc.init_rpc(name, rank=rank, world_size=world_size)
    if rank == 1:
        with dist_autograd.context() as context_id:
            print("id", context_id >> 48, context_id & ((1 << 48) - 1))
            try:
                with dist_autograd.context():
                    pass
            except RuntimeError as e:
                print("nested:", str(e).splitlines()[0].split(" (")[0])
            loss = rpc.rpc_sync("ps", use, args=(torch.ones(3).double(),))
            dist_autograd.backward(context_id, [loss])
            print("grads here", len(dist_autograd.get_gradients(context_id)))
            print("ps", rpc.rpc_sync("ps", gradient, args=(context_id,)))
            print("grad field", shared.grad)
        print("after", valid(context_id))
        try:
            dist_autograd.get_gradients(context_id)
        except RuntimeError as e:
            print("after", str(e).splitlines()[0].split(" (")[0].replace(str(context_id), "N"))
        with dist_autograd.context() as context_id, torch.no_grad():
            loss = rpc.rpc_sync("ps", use, args=(torch.ones(3).double(),))
            print("no_grad", loss.requires_grad)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(3,), nprocs=3, join=True)
