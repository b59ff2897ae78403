"""DistributedDataParallel beside RPC: trainers share an embedding that a server keeps.

The last rank is the server, the others are trainers. A trainer looks its words up by RPC; the rest
of the model is a replica in DDP. One distributed backward pass goes through both: DDP averages the
gradients of the replicas, those of the embedding stay on the server, in the context of each trainer,
and are applied in order of rank. Trainer 0 does the same in one process beside it, and compares.

    torchrun --nproc-per-node 4 examples/ddp_rpc.py
    squall run examples/ddp_rpc.py --workers 4 --engine torch
"""

import copy

import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef
from torch.nn.parallel import DistributedDataParallel

WORDS, WIDTH, BATCH, STEPS, LR = 12, 5, 8, 5, 0.2
torch.manual_seed(0)
EMBEDDING, HEAD = nn.Embedding(WORDS, WIDTH).double(), nn.Linear(WIDTH, 1).double()


def look_up(words):
    return EMBEDDING(words)


def references():
    return [RRef(parameter) for parameter in EMBEDDING.parameters()]


def train(rank, trainers, group):
    single = copy.deepcopy(nn.Sequential(EMBEDDING, HEAD))
    replica = DistributedDataParallel(HEAD, process_group=group)
    parameters = rpc.rpc_sync("server", references) + [RRef(each) for each in HEAD.parameters()]
    optimizer = DistributedOptimizer(optim.SGD, parameters, lr=LR)
    # A replica has the mean of all gradients; the embedding is moved by those of each trainer.
    single_optimizer = optim.SGD(single[1].parameters(), lr=LR)
    single_optimizer.add_param_group({"params": single[0].parameters(), "lr": LR * trainers})
    words = torch.randint(WORDS, (trainers * BATCH,), generator=torch.Generator().manual_seed(7))
    targets = words.double().sin().unsqueeze(1)
    part = slice(rank, None, trainers)
    for step in range(1, STEPS + 1):
        with dist_autograd.context() as context_id:
            looked_up = rpc.rpc_sync("server", look_up, args=(words[part],))
            loss = nn.functional.mse_loss(replica(looked_up), targets[part])
            dist_autograd.backward(context_id, [loss])
            for turn in range(trainers):
                if turn == rank:
                    optimizer.step(context_id)
                dist.barrier(group)
        mean = loss.detach() / trainers
        dist.all_reduce(mean, group=group)
        if rank == 0:
            single_optimizer.zero_grad()
            whole = nn.functional.mse_loss(single(words), targets)
            whole.backward()
            single_optimizer.step()
            torch.testing.assert_close(mean, whole.detach())
            print(f"step {step}  loss {mean.item():.6f}", flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, trainers = dist.get_rank(), dist.get_world_size() - 1
    group = dist.new_group(range(trainers))
    name = "server" if rank == trainers else f"trainer{rank}"
    rpc.init_rpc(name, rank=rank, world_size=trainers + 1)
    if rank < trainers:
        train(rank, trainers, group)
    rpc.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
