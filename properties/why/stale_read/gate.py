# run: --workers 3
# engines: port torch
# shows: RPC ran for more than set timeout
# fix: self.changed.wait() => self.changed.wait_for(lambda: self.is_open)
"""A visitor waits at a gate until the operator opens it; while he waits, a display shows his name."""

import os
import threading
import time

import torch.distributed.rpc as rpc

shown = []


class Gate:
    def __init__(self):
        self.changed = threading.Condition()
        self.is_open = False

    def enter(self, who):
        if not self.is_open:
            rpc.rpc_sync("operator", show, args=(who,))
            with self.changed:
                self.changed.wait()  # <- second
        return f"{who} is in"

    def open(self):
        with self.changed:
            self.is_open = True
            self.changed.notify_all()  # <- first


gate = Gate()


def show(who):
    shown.append(who)


def enter(who):
    return gate.enter(who)


def open_gate():
    gate.open()


def main():
    rank = int(os.environ["RANK"])
    name = ["gatekeeper", "visitor", "operator"][rank]
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=15)
    rpc.init_rpc(name, rank=rank, world_size=3, rpc_backend_options=options)
    if name == "visitor":
        rpc.rpc_sync("gatekeeper", enter, args=(name,))
    elif name == "operator":
        time.sleep(0.1)
        rpc.rpc_sync("gatekeeper", open_gate)
    rpc.shutdown()


if __name__ == "__main__":
    main()
