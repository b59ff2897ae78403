# run: --workers 2
# engines: port
# shows: AssertionError: chunks \[.*\], expected 0 to 3
# fix: sends.append(dist.isend(buffer, dst=1, tag=n)) => dist.isend(buffer, dst=1, tag=n).wait()
"""A reader sends one chunk after the other from one buffer."""

import os

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    if int(os.environ["RANK"]) == 0:
        buffer, sends = torch.zeros(8), []
        for n in range(4):
            buffer.fill_(n)
            sends.append(dist.isend(buffer, dst=1, tag=n))  # <- at fault
        for send in sends:
            send.wait()
    else:
        chunks = [torch.zeros(8) for _ in range(4)]
        for n, chunk in enumerate(chunks):
            dist.recv(chunk, src=0, tag=n)
        seen = [int(chunk[0]) for chunk in chunks]
        assert seen == [0, 1, 2, 3], f"chunks {seen}, expected 0 to 3"
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
