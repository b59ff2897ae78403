# run: --workers 3 --faults rough
# engines: port torch
# shows: AssertionError: slots \{.*\}, expected one a client
# fix: slot = len(slots) => slot = next((n for n in slots if slots[n] == client), len(slots))
"""Clients ask a coordinator for a slot each, and try again when the call fails."""

import os
import time

import torch.distributed.rpc as rpc

slots = {}


def allocate(client):
    slot = len(slots)  # <- at fault
    slots[slot] = client
    return slot


def with_retries(function, *args, attempts=6, pause_s=0.05):
    for attempt in range(attempts):
        try:
            return rpc.rpc_sync("coordinator", function, args=args, timeout=1)
        except (RuntimeError, ConnectionError):
            time.sleep(pause_s * 2**attempt)
    raise SystemExit(0)  # the coordinator is gone: somebody starts us again


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc("coordinator" if rank == 0 else f"client{rank}", rank=rank, world_size=size)
    if rank:
        mine = [with_retries(allocate, f"client{rank}/{n}") for n in range(3)]
        print(rank, "has slots", mine)
    rpc.shutdown()
    if rank == 0:
        clients = list(slots.values())
        assert len(set(clients)) == len(clients), f"slots {slots}, expected one a client"


main()
