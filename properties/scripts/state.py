"""What a process owns privately: globals, random state, grad mode, names, ranks, a barrier."""

import os
import random
import sys

import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

registry = {}
handled = []


def remember(key, value):
    registry[key] = value
    return sorted(registry.items())


def draw():
    return random.random(), torch.rand(1).item()


def grad_mode(x):
    with torch.no_grad():
        y = x * 2
    z = x * 3
    return torch.is_grad_enabled(), y.requires_grad, z.requires_grad


def whoami():
    info = rpc.get_worker_info()
    return info.name, info.id, __name__ != "x", os.getpid() > 0


def use_default_dtype():
    return str(torch.get_default_dtype())


def ping_pong(to, n):
    handled.append(n)
    if n == 0:
        return [rpc.get_worker_info().name]
    me = rpc.get_worker_info().name
    return [me, *rpc.rpc_sync(to, ping_pong, args=(me, n - 1))]


def main(rank, world_size):
    random.seed(rank)
    torch.manual_seed(rank)
    if rank == 1:
        torch.set_default_dtype(torch.float64)
    rpc.init_rpc(
        f"node:{rank}",
        rank=rank,
        world_size=world_size,
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
            init_method=f"tcp://localhost:{os.environ['MASTER_PORT']}"
        ),
    )
    if rank == 0:
        names = [f"node:{r}" for r in range(world_size)]
        for name in names:
            print(rpc.rpc_sync(name, whoami))
        for name in names:
            print(rpc.rpc_sync(name, remember, args=(name, 1)))
        mine = draw()
        print([rpc.rpc_sync(name, draw) for name in names[1:]])
        random.seed(0)
        torch.manual_seed(0)
        print(mine == draw())
        print([rpc.rpc_sync(name, use_default_dtype) for name in names])
        x = torch.ones(1, requires_grad=True)
        with dist_autograd.context():
            print(rpc.rpc_sync("node:1", grad_mode, args=(x,)))
        with torch.no_grad():
            print(rpc.rpc_sync("node:1", grad_mode, args=(x,)))
        print(rpc.rpc_sync("node:1", ping_pong, args=("node:2", 4)), len(handled))
        print(rpc.get_worker_info("node:2"), rpc.get_worker_info())
        print(rpc.rpc_sync(2, torch.add, args=(torch.ones(1), 2)))
        print(rpc.rpc_sync(rpc.get_worker_info("node:1"), max, args=(3, 4)))
        info = rpc._get_debug_info()
        print("info", sorted(info), info["num_owner_rrefs"], info["num_autograd_contexts"])
        sys.stdout.flush()
    rpc.shutdown()

    dist.init_process_group(
        "gloo",
        rank=rank,
        world_size=world_size,
        init_method=f"tcp://localhost:{int(os.environ['MASTER_PORT']) + 1}",
    )
    dist.barrier()
    if rank == 0:
        print("rank", dist.get_rank(), "of", dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29517")
    mp.spawn(main, args=(3,), nprocs=3)
