# pytorch/pytorch#126032, 2 ranks
# all_gather on gloo under inference_mode fails, where NCCL and broadcast do not
# Expected: what each rank has
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
with torch.inference_mode():
    data = [torch.full((3,), float(rank)) for _ in range(2)]
    try:
        dist.all_gather(data, data[rank])
        found = [each[0].item() for each in data]
        said = f"{'OK' if found == [0, 1] else 'BUG'} gathered {found}"
    except RuntimeError as error:
        said = f"BUG {str(error).partition('.')[0]}"
if rank == 0:
    print(said, flush=True)
