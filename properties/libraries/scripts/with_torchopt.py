"""torchopt: distributed: auto_init_rpc, remote calls by parts of a tensor."""

import torch
import torch.distributed.rpc as rpc
import torchopt.distributed as todist


def square(x):
    return float((x * x).sum())


@todist.auto_init_rpc()
def main():
    todist.barrier()
    rank = todist.get_rank()
    if rank == 0:
        print(
            todist.remote_sync_call(
                square, args=(torch.ones(4),), partitioner=todist.dim_partitioner(0, keepdim=True)
            )
        )
    todist.barrier()
    print(rank, todist.get_world_size(), rpc.get_worker_info().name)


main()
