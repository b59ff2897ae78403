"""Sends and receives: blocking, not blocking, from anybody, with tags, in batches."""

import os

import torch
import torch.distributed as dist

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def main():
    dist.init_process_group("gloo")
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    x = torch.zeros(2)
    if RANK == 0:
        dist.send(torch.tensor([1.0, 2.0]), dst=1)
    elif RANK == 1:
        print(RANK, "recv", dist.recv(x, src=0), x.tolist())
    works = [dist.isend(torch.full((2,), float(RANK)), right), dist.irecv(x, left)]
    for work in works:
        work.wait()
    print(RANK, "irecv", x.tolist())
    if RANK == 0:
        seen = []
        for _ in range(SIZE - 1):
            sender = dist.recv(x)
            seen.append((sender, x.tolist()))
        print(RANK, "from anybody", sorted(seen))
    else:
        dist.send(torch.full((2,), 10.0 * RANK), dst=0)
    dist.barrier()  # rank 0 takes from anybody, also what is sent below
    if RANK == 0:
        works = [dist.isend(torch.full((2,), float(tag)), 1, tag=tag) for tag in (7, 8)]
        for work in works:
            work.wait()
    elif RANK == 1:
        y = torch.zeros(2)
        works = [dist.irecv(y, 0, tag=8), dist.irecv(x, 0, tag=7)]
        for work in works:
            work.wait()
        print(RANK, "tags", x.tolist(), y.tolist())
    batch = [
        dist.P2POp(dist.isend, torch.full((2,), 100.0 + RANK), right),
        dist.P2POp(dist.irecv, x, left),
    ]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    print(RANK, "batch", x.tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
