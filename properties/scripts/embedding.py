"""Sparse gradients: an embedding table on a parameter server, used by two trainers."""

import argparse
import os

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.optim import DistributedOptimizer


class Table(nn.Module):
    def __init__(self, rows, dim):
        super().__init__()
        torch.manual_seed(11)
        self.emb = nn.EmbeddingBag(rows, dim, mode="sum", sparse=True)

    def forward(self, indices, offsets):
        return self.emb(indices, offsets)

    def params(self):
        return [rpc.RRef(p) for p in self.parameters()]

    def grad(self, context_id):
        g = dist_autograd.get_gradients(context_id)[self.emb.weight]
        g = g.coalesce()
        return g.is_sparse, g.indices().tolist(), [round(v, 4) for v in g.values().sum(1).tolist()]


class Hybrid(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = table
        torch.manual_seed(12)
        self.fc = nn.Linear(4, 3)

    def forward(self, indices, offsets):
        e = self.table.rpc_sync().forward(indices, offsets)
        f = self.table.rpc_sync().forward(indices, offsets)
        return self.fc(e * f)


def train(table, rank, steps):
    model = Hybrid(table)
    params = table.rpc_sync().params() + [rpc.RRef(p) for p in model.fc.parameters()]
    opt = DistributedOptimizer(torch.optim.SGD, params, lr=0.05)
    out = []
    torch.manual_seed(100 + rank)
    for _ in range(steps):
        indices = torch.randint(0, 10, (6,))
        offsets = torch.tensor([0, 2, 3])
        target = torch.tensor([0, 1, 2])
        with dist_autograd.context() as cid:
            loss = nn.functional.cross_entropy(model(indices, offsets), target)
            dist_autograd.backward(cid, [loss])
            out.append((round(loss.item(), 4), table.rpc_sync().grad(cid)))
            opt.step(cid)
    return out


def run(rank, world_size, steps):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29510")
    name = ["master", "trainer1", "trainer2", "ps"][rank]
    rpc.init_rpc(name, rank=rank, world_size=world_size)
    if rank == 0:
        table = rpc.remote("ps", Table, args=(10, 4))
        for trainer in (1, 2):  # one after the other: the numbers do not depend on luck
            fut = rpc.rpc_async(f"trainer{trainer}", train, args=(table, trainer, steps))
            for line in fut.wait():
                print(f"trainer{trainer}", line)
    rpc.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    processes = []
    ctx = mp.get_context("spawn")
    for rank in range(4):
        p = ctx.Process(target=run, args=(rank, 4, args.steps))
        p.start()
        processes.append(p)
    for p in processes:
        p.join()
