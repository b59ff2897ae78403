# pytorch/pytorch#153350, 1 ranks
# set_model_state_dict(full_state_dict=True, strict=False) says that no key is missing, and one is
# Expected: missing_keys=['bias']
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

dist.init_process_group("gloo")
model = torch.nn.Linear(10, 5)
state = model.state_dict()
del state["bias"]
options = StateDictOptions(strict=False, full_state_dict=True)
missing = set_model_state_dict(model, state, options=options).missing_keys
print("OK" if missing == ["bias"] else "BUG", f"missing keys: {missing}", flush=True)
