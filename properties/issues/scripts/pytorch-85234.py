# pytorch/pytorch#85234, 4 ranks
# all_gather of an empty tensor ends the process (SIGFPE) on gloo
# Expected: empty tensors
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.ones((1, 0, 2))
gathered = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
dist.all_gather(gathered, x)
if dist.get_rank() == 0:
    shapes = {tuple(each.shape) for each in gathered}
    print("OK" if shapes == {(1, 0, 2)} else "BUG", "four empty tensors", flush=True)
