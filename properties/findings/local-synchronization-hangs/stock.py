import datetime
import tempfile

import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, init):
    limit = datetime.timedelta(seconds=10)
    dist.init_process_group("gloo", init, timeout=limit, world_size=3, rank=rank)
    dist.new_group([0, 2])  # rank 1 is in fewer groups from here on
    if rank == 2:
        return
    said = "OK the group stands"
    try:
        dist.new_group([0, 1], use_local_synchronization=True, timeout=limit)
    except Exception as error:
        said = f"BUG new_group([0, 1]) on both: {str(error).splitlines()[0]}"
    if rank == 0:
        print(said, flush=True)


if __name__ == "__main__":
    mp.spawn(work, (f"file://{tempfile.mktemp()}",), 3)
