"""Custom autograd functions at both ends of a call."""

import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.autograd import Function
from torch.autograd.function import once_differentiable

calls = []


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad_output):
        calls.append("cube")
        (x,) = ctx.saved_tensors
        return grad_output * 3 * x**2


class ScaleAndSign(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        sign = x.sign()
        ctx.mark_non_differentiable(sign)
        return x * factor, sign

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output, grad_sign):
        calls.append("scale")
        return grad_output * ctx.factor, None


class TwoOutputs(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        calls.append((a is None, b is None))
        return (0 if a is None else a * 2) + (0 if b is None else b * 3)


def remote_part(x):
    y, sign = ScaleAndSign.apply(Cube.apply(x), 4.0)
    return y, sign


def remote_two(x):
    return TwoOutputs.apply(x)[1]


def remote_calls():
    return calls


def run(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29511")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
        with dist_autograd.context() as cid:
            y, sign = rpc.rpc_sync("worker1", remote_part, args=(Cube.apply(x),))
            print(y.tolist(), sign.tolist(), y.requires_grad, sign.requires_grad)
            dist_autograd.backward(cid, [(y * sign).sum()])
            print(dist_autograd.get_gradients(cid)[x].tolist())
        with dist_autograd.context() as cid:
            z = rpc.rpc_sync("worker1", remote_two, args=(x,))
            dist_autograd.backward(cid, [z.sum()])
            print(dist_autograd.get_gradients(cid)[x].tolist())
        print(calls, rpc.rpc_sync("worker1", remote_calls))
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2, join=True)
