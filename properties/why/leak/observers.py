# run: --workers 3
# engines: port torch
# shows: AssertionError: \d+ episodes are alive
# always: yes
# fix: self.history.append(episode) => self.history = [*self.history[-1:], episode]
"""Agents send a learner references to their episodes; the learner fetches each one once."""

import gc

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


class Episode:
    def __init__(self, seed):
        self.rewards = torch.arange(10.0) * seed

    def total(self):
        return self.rewards.sum().item()


class Learner:
    def __init__(self):
        self.history = []
        self.returns = []

    def learn(self, episode):
        self.history.append(episode)  # <- at fault
        self.returns.append(episode.rpc_sync().total())
        return len(self.returns)


def episodes_here():
    gc.collect()
    return sum(type(each) is Episode for each in gc.get_objects())


def play(learner, count):
    for seed in range(count):
        learner.rpc_sync().learn(rpc.RRef(Episode(seed)))
        alive = episodes_here()
        assert alive <= 5, f"{alive} episodes are alive after {seed + 1}"


def main(rank, world_size):
    options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://localhost:29542")
    rpc.init_rpc(f"agent{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
    if rank == 0:
        learner = rpc.remote("agent2", Learner)
        agents = [rpc.rpc_async(f"agent{n}", play, args=(learner, 8)) for n in (0, 1)]
        for agent in agents:
            agent.wait()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(main, args=(3,), nprocs=3)
