"""Functions that answer later: chained futures, and a parameter server that batches updates."""

import os
import threading

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn, optim

N_TRAINERS = 3


@rpc.functions.async_execution
def async_add_chained(to, x, y, z):
    return rpc.rpc_async(to, torch.add, args=(x, y)).then(lambda fut: fut.wait() + z)


@rpc.functions.async_execution
def async_add_wrong(x):
    return x + 1


class BatchUpdateParameterServer:
    def __init__(self, batch_update_size=N_TRAINERS):
        torch.manual_seed(0)
        self.model = nn.Linear(4, 2).double()
        self.lock = threading.Lock()
        self.future_model = torch.futures.Future()
        self.batch_update_size = batch_update_size
        self.curr_update_size = 0
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.5)
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)

    def get_model(self):
        return self.model

    @staticmethod
    @rpc.functions.async_execution
    def update_and_fetch_model(ps_rref, grads):
        self = ps_rref.local_value()
        with self.lock:
            self.curr_update_size += 1
            for p, g in zip(self.model.parameters(), grads, strict=True):
                p.grad += g
            fut = self.future_model
            if self.curr_update_size >= self.batch_update_size:
                for p in self.model.parameters():
                    p.grad /= self.batch_update_size
                self.curr_update_size = 0
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=False)
                fut.set_result(self.model)
                self.future_model = torch.futures.Future()
        return fut


class Adder:
    @staticmethod
    @rpc.functions.async_execution
    def static_add(to, x, y):
        return rpc.rpc_async(to, torch.add, args=(x, y)).then(lambda fut: fut.wait() * 2)

    @classmethod
    @rpc.functions.async_execution
    def class_add(cls, to, x, y):
        return rpc.rpc_async(to, torch.mul, args=(x, y))

    @rpc.functions.async_execution
    def bound_add(self, to, x, y):
        return rpc.rpc_async(to, torch.sub, args=(x, y))


def train(ps_rref, seed, steps):
    m = ps_rref.rpc_sync().get_model()
    torch.manual_seed(seed)
    losses = []
    for _ in range(steps):
        inputs = torch.randint(-2, 3, (5, 4)).double()
        target = torch.ones(5, 2).double()
        m.zero_grad()
        loss = nn.functional.mse_loss(m(inputs), target)
        loss.backward()
        losses.append(round(loss.item(), 6))
        m = rpc.rpc_sync(
            ps_rref.owner(),
            BatchUpdateParameterServer.update_and_fetch_model,
            args=(ps_rref, [p.grad for p in m.parameters()]),
        )
    return losses


def run(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29504")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        x = torch.ones(2)
        print(rpc.rpc_sync("worker1", async_add_chained, args=("worker2", x, 1, 1)).tolist())
        print(rpc.remote("worker1", async_add_chained, args=("worker2", x, 2, 1)).to_here())
        print(rpc.rpc_sync("worker1", Adder.static_add, args=("worker2", x, 2)))
        print(rpc.rpc_sync("worker1", Adder.class_add, args=("worker2", x, 5)))
        rref = rpc.remote("worker1", Adder)
        print(rref.rpc_sync().static_add("worker2", x, 2))
        print(rref.rpc_async().class_add("worker2", x, 7).wait())
        print(rref.remote().bound_add("worker2", x, 3).to_here())
        try:
            rpc.rpc_sync("worker1", async_add_wrong, args=(x,))
        except RuntimeError as e:
            print(type(e).__name__, "must return a torch.futures.Future object" in str(e))
        ps_rref = rpc.RRef(BatchUpdateParameterServer())
        futs = [
            rpc.rpc_async(f"worker{t}", train, args=(ps_rref, t, 4))
            for t in range(1, N_TRAINERS + 1)
        ]
        for losses in torch.futures.wait_all(futs):
            print(losses)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(N_TRAINERS + 1,), nprocs=N_TRAINERS + 1, join=True)
