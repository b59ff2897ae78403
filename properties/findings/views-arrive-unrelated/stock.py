import os
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def triple_then_sum(whole, part):
    whole.mul_(3)
    return part.sum()


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        x = torch.ones(2, requires_grad=True)
        with dist_autograd.context() as context_id:
            whole = x * 1
            value = rpc.rpc_sync("w1", triple_then_sum, args=(whole, whole[:1]))
            dist_autograd.backward(context_id, [value])
            gradient = dist_autograd.get_gradients(context_id)[x].tolist()
        report(
            value.item() == 3 and gradient != [3, 0],
            f"value {value.item()}, gradient {gradient}; [3, 0] is right",
        )
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
