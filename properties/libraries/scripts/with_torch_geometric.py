"""torch-geometric: distributed.rpc: groups of roles, registered callees, a global barrier."""

import os

import torch.distributed.rpc as rpc
from torch_geometric.distributed.dist_context import DistContext, DistRole
from torch_geometric.distributed.rpc import (
    RPCCallBase,
    global_barrier,
    init_rpc,
    rpc_async,
    rpc_register,
    shutdown_rpc,
)

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
context = DistContext(rank, rank, world, world, "group", DistRole.WORKER)
init_rpc(
    context,
    rpc_worker_names={},
    master_addr=os.environ["MASTER_ADDR"],
    master_port=int(os.environ["MASTER_PORT"]),
)


class Ten(RPCCallBase):
    def rpc_sync(self, x):
        return 10 * rank + x

    rpc_async = rpc_sync


number = rpc_register(Ten())
global_barrier()
print(rank, rpc_async(f"group-{1 - rank}", number, args=(5,)).wait(), rpc.get_worker_info().name)
shutdown_rpc(True)
