# verl-project/verl#6365, 2 ranks
# Buffers that each rank lists in an order of its own are broadcast one into the other
# Expected: no such silence: as with DDP, which compares parameters, or by name
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
module = torch.nn.Module()
for name in ("global", "local") if rank == 0 else ("local", "global"):
    module.register_buffer(name, torch.full((2,), float(len(name)) if rank == 0 else 0.0))
for _, buffer in module.named_buffers():
    dist.broadcast(buffer, 0)
pair = torch.stack([module.get_buffer("global"), module.get_buffer("local")])
pairs = [torch.zeros_like(pair) for _ in range(2)]
dist.all_gather(pairs, pair)
if rank == 0:
    found = [each[:, 0].tolist() for each in pairs]
    print("OK" if found[0] == found[1] else "BUG", f"global and local: {found}", flush=True)
