"""A loop of the script's own: when a rank is lost, those who are left form a group without it and go on."""

import datetime
import os
import time

import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore("127.0.0.1", 29900, size, rank == 0, datetime.timedelta(seconds=30))
weights, step, generation = torch.zeros(4), 0, 0
while step < 10:
    # who is there within a second
    generation += 1
    prefix = f"generation {generation}"
    store.set(f"{prefix}/{rank}", "here")
    time.sleep(1)
    members = [r for r in range(size) if store.check([f"{prefix}/{r}"])]
    me = members.index(rank)
    print(f"rank {rank}: generation {generation} with {members} from step {step}", flush=True)
    try:
        dist.init_process_group(
            "gloo",
            store=dist.PrefixStore(prefix, store),
            rank=me,
            world_size=len(members),
            timeout=datetime.timedelta(seconds=5),
        )
        while step < 10:
            grad = torch.ones(4) * (rank + 1)
            dist.all_reduce(grad)
            weights -= 0.1 * grad / len(members)
            step += 1
            time.sleep(0.5)
        dist.barrier()
        dist.destroy_process_group()
    except RuntimeError as error:
        gone = "rank 2" if "Connection closed by peer (rank 2" in str(error) else "nobody"
        print(f"rank {rank}: {gone} has gone at step {step}", flush=True)
        dist.destroy_process_group()
print(f"rank {rank}: done {weights.tolist()}", flush=True)
