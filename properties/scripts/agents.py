"""An agent and its observers: RRefs of oneself passed around, calls in both directions."""

import os
import random

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
import torch.nn as nn
from torch.distributed.rpc import RRef, remote, rpc_async, rpc_sync

AGENT_NAME = "agent"
OBSERVER_NAME = "observer{}"


def _call_method(method, rref, *args, **kwargs):
    return method(rref.local_value(), *args, **kwargs)


def _remote_method(method, rref, *args, **kwargs):
    args = [method, rref, *args]
    return rpc_sync(rref.owner(), _call_method, args=args, kwargs=kwargs)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.affine = nn.Linear(2, 2)

    def forward(self, x):
        return torch.softmax(self.affine(x), dim=1)


class Observer:
    def __init__(self, seed):
        self.id = rpc.get_worker_info().id
        self.rng = random.Random(seed + self.id)
        self.state = [0.0, 0.0]

    def run_episode(self, agent_rref, n_steps):
        for _ in range(n_steps):
            state = torch.tensor(self.state)
            action = _remote_method(Agent.select_action, agent_rref, self.id, state)
            self.state[action] += self.rng.choice([1, 2])
            reward = self.state[1] - self.state[0]
            _remote_method(Agent.report_reward, agent_rref, self.id, reward)
        return self.state


class Agent:
    def __init__(self, world_size):
        self.ob_rrefs = []
        self.agent_rref = RRef(self)
        self.rewards = {}
        self.saved_log_probs = {}
        self.policy = Policy()
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-2)
        for ob_rank in range(1, world_size):
            ob_info = rpc.get_worker_info(OBSERVER_NAME.format(ob_rank))
            self.ob_rrefs.append(remote(ob_info, Observer, args=(40,)))
            self.rewards[ob_info.id] = []
            self.saved_log_probs[ob_info.id] = []

    def select_action(self, ob_id, state):
        probs = self.policy(state.float().unsqueeze(0))
        action = int(probs.argmax())
        self.saved_log_probs[ob_id].append(probs[0, action].log())
        return action

    def report_reward(self, ob_id, reward):
        self.rewards[ob_id].append(reward)

    def run_episode(self, n_steps=0):
        futs = []
        for ob_rref in self.ob_rrefs:
            futs.append(
                rpc_async(
                    ob_rref.owner(),
                    _call_method,
                    args=(Observer.run_episode, ob_rref, self.agent_rref, n_steps),
                )
            )
        return [fut.wait() for fut in futs]

    def finish_episode(self):
        loss = 0.0
        for ob_id in sorted(self.rewards):
            logs = torch.stack(self.saved_log_probs[ob_id])
            loss = loss - (logs * torch.tensor(self.rewards[ob_id])).sum()
            self.rewards[ob_id], self.saved_log_probs[ob_id] = [], []
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def run_worker(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ.setdefault("MASTER_PORT", "29516")
    if rank == 0:
        rpc.init_rpc(AGENT_NAME, rank=rank, world_size=world_size)
        agent = Agent(world_size)
        for i_episode in range(3):
            states = agent.run_episode(n_steps=5)
            print(f"episode {i_episode} states {states} loss {agent.finish_episode():.4f}")
    else:
        rpc.init_rpc(OBSERVER_NAME.format(rank), rank=rank, world_size=world_size)
    rpc.shutdown()


def main():
    world_size = 3
    mp.spawn(run_worker, args=(world_size,), nprocs=world_size, join=True)


if __name__ == "__main__":
    main()
