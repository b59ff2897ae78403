# pytorch/pytorch#164929, 1 ranks
# get_optimizer_state_dict before the first step counts as a step of Adam
# Expected: it reads, and changes nothing
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

dist.init_process_group("gloo")
steps = []
for asked in (False, True):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    if asked:
        get_optimizer_state_dict(model, optimizer)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    steps.append(optimizer.state[model.weight]["step"].item())
word = "OK" if steps == [1, 1] else "BUG"
print(word, f"after one step, without and with a look at the state: {steps}", flush=True)
