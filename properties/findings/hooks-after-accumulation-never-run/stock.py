import os
import tempfile

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def report(bug, text):
    print("BUG" if bug else "OK", text, flush=True)
    os._exit(0)


def double(x):
    return 2 * x


def work(rank, init):
    options = rpc.TensorPipeRpcBackendOptions(init_method=init)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        x = torch.ones(2, requires_grad=True)
        y = torch.ones(2, requires_grad=True)
        ran = []
        x.register_hook(lambda _: ran.append("hook"))
        x.register_post_accumulate_grad_hook(lambda _: ran.append("post-accumulate"))
        torch.autograd.graph.register_multi_grad_hook((x, y), lambda _: ran.append("multi-grad"))
        with dist_autograd.context() as context_id:
            loss = (rpc.rpc_sync("w1", double, args=(x,)) * y).sum()
            dist_autograd.backward(context_id, [loss])
        report(ran == ["hook"], f"hooks that ran: {ran}")
    rpc.shutdown()


if __name__ == "__main__":
    init = f"file://{tempfile.mktemp()}"
    mp.spawn(work, (init,), 2, join=False, daemon=True).processes[0].join()
