# run: --workers 3
# engines: port torch
# shows: KeyError: 'job-\d'
# fix: posted.then(lambda done: accepted.append(done.value())) => posted.then(lambda done: accepted.append(done.value())).wait()
"""A board of jobs: a client posts them there, and tells a runner their names."""

import os
from collections import OrderedDict

import torch
import torch.distributed.rpc as rpc

jobs = OrderedDict()


def post(job, payload):
    jobs[job] = {"payload": payload, "state": "posted"}  # <- first
    return job


def claim(job):
    jobs[job]["state"] = "claimed"  # <- second
    return jobs[job]["payload"]


def finish(job):
    jobs[job]["state"] = "done"


def work_on(names):
    results = []
    for job in names:
        payload = rpc.rpc_sync("board", claim, args=(job,))
        results.append(payload.square().sum().item())
        rpc.rpc_sync("board", finish, args=(job,))
    return results


def main():
    rank = int(os.environ["RANK"])
    names = {0: "board", 1: "client", 2: "runner"}
    rpc.init_rpc(names[rank], rank=rank, world_size=len(names))
    if rank == 1:
        accepted = []
        for number in range(3):
            job, payload = f"job-{number}", torch.full((2,), float(number))
            posted = rpc.rpc_async("board", post, args=(job, payload))
            posted.then(lambda done: accepted.append(done.value()))
        results = rpc.rpc_sync("runner", work_on, args=([f"job-{n}" for n in range(3)],))
        assert results == [0.0, 2.0, 8.0], results
    rpc.shutdown()


main()
