import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def module(rank):
    """Whose order of buffers follows from that of a set or of threads, say, and differs by rank."""
    made = torch.nn.Module()
    for name in ("global", "local") if rank == 0 else ("local", "global"):
        made.register_buffer(name, torch.full((2,), float(len(name)) if rank == 0 else 0.0))
    return made


def work(rank, init):
    dist.init_process_group("gloo", init, world_size=2, rank=rank)
    made = module(rank)
    for _, buffer in made.named_buffers():
        dist.broadcast(buffer, 0)
    if rank == 1:
        found = [made.get_buffer(name)[0].item() for name in ("global", "local")]
        word = "OK" if found == [6, 5] else "BUG"
        print(word, f"global and local are {found}, of rank 0 they are [6.0, 5.0]", flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 2)
