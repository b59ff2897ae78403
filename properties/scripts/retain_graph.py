"""backward again and again over one graph."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

theta = torch.tensor([1.0, 2.0], requires_grad=True)


def square(x):
    return (theta * x) * (theta * x)


def grad_of_theta(context_id):
    return dist_autograd.get_gradients(context_id)[theta].tolist()


def run(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29509")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        x = torch.tensor([3.0, 4.0], requires_grad=True)
        with dist_autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", square, args=(x * x,))
            first, second = y[0], y.sum()
            print(y.tolist())
            dist_autograd.backward(context_id, [first], retain_graph=True)
            print(dist_autograd.get_gradients(context_id)[x].tolist())
            print(rpc.rpc_sync("worker1", grad_of_theta, args=(context_id,)))
            dist_autograd.backward(context_id, [second, first], retain_graph=True)
            print(dist_autograd.get_gradients(context_id)[x].tolist())
            print(rpc.rpc_sync("worker1", grad_of_theta, args=(context_id,)))
            dist_autograd.backward(context_id, [second])
            print(dist_autograd.get_gradients(context_id)[x].tolist())
            try:
                dist_autograd.backward(context_id, [second])
            except RuntimeError as e:
                print("Trying to backward through the graph a second time" in str(e))
        print(x.grad, rpc.rpc_sync("worker1", torch.add, args=(torch.ones(1), 1)))
        with dist_autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", square, args=(x,))
            dist_autograd.backward(context_id, [y.sum()])
            print(dist_autograd.get_gradients(context_id)[x].tolist())
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2, join=True)
