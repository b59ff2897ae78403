"""pytorch-ignite: Parallel, all_reduce, all_gather, metrics of an engine."""

import ignite.distributed as idist
import torch
from ignite.engine import Engine
from ignite.metrics import Accuracy, Average


def work(local_rank):
    rank = idist.get_rank()
    print(
        rank,
        idist.backend(),
        idist.get_world_size(),
        idist.all_reduce(rank + 1),
        idist.all_gather(f"r{rank}"),
    )
    print(rank, idist.broadcast(torch.tensor([rank + 5.0]), src=1).tolist())
    engine = Engine(lambda engine, batch: batch)
    Average().attach(engine, "mean")
    print(rank, engine.run([1.0 * rank, 3.0 + rank]).metrics)
    accuracy = Accuracy()
    accuracy.update((torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, rank])))
    print(rank, accuracy.compute())
    idist.barrier()


with idist.Parallel(backend="gloo") as parallel:
    parallel.run(work)
