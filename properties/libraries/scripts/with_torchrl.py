"""torchrl: a replay buffer on another worker, by RPC."""

import os

os.environ["RL_LOGGING_LEVEL"] = "ERROR"
import torch
import torch.distributed.rpc as rpc
from tensordict import TensorDict
from torchrl._utils import accept_remote_rref_invocation
from torchrl.data import LazyTensorStorage, RandomSampler, RemoteTensorDictReplayBuffer
from torchrl.data.replay_buffers.writers import RoundRobinWriter

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Buffer(RemoteTensorDictReplayBuffer):
    def __init__(self):
        super().__init__(
            storage=LazyTensorStorage(8),
            sampler=RandomSampler(),
            writer=RoundRobinWriter(),
            batch_size=4,
        )

    @accept_remote_rref_invocation
    def size(self):
        return len(self)


rpc.init_rpc(f"w{rank}", rank=rank, world_size=world)
if rank == 0:
    buffer = rpc.remote("w1", Buffer)
    sent = rpc.rpc_sync(
        "w1", Buffer.extend, args=(buffer, TensorDict({"x": torch.arange(6.0)}, [6]))
    )
    print(sent.tolist(), rpc.rpc_sync("w1", Buffer.size, args=(buffer,)))
    got = rpc.rpc_sync("w1", Buffer.sample, args=(buffer, 4))
    print(got.batch_size, bool((got["x"] < 6).all()))
rpc.shutdown()
