"""What the words in pictures mean: in hover texts, and in a list on the page."""

from __future__ import annotations

#: functions of PyTorch's own that calls run, and what they are there for
#: (torch/distributed/rpc/api.py, torch/distributed/optim/optimizer.py)
FUNCTIONS = {
    "_gather_to_leader": "PyTorch's own, in rpc.shutdown() and _all_gather: a worker tells the leader that "
    "it has come so far",
    "_broadcast_to_followers": "PyTorch's own, in rpc.shutdown() and _all_gather: the leader tells a worker that "
    "all have come so far",
    "_receive_broadcast": "in rpc.shutdown() and _all_gather: the leader tells a worker that all have come "
    "so far (PyTorch's _broadcast_to_followers)",
    "local_invoke": "a method of an RRef's value, called by rref.rpc_sync() and the like (PyTorch's "
    "_local_invoke)",
    "local_invoke_async_execution": "a method of an RRef's value, called by rref.rpc_sync() and the "
    "like (PyTorch's _local_invoke_async_execution)",
    "_new_local_optimizer": "PyTorch's own: DistributedOptimizer makes its part on a worker",
    "_new_script_local_optimizer": "PyTorch's own: DistributedOptimizer makes its part on a worker",
    "_local_optimizer_step": "PyTorch's own: DistributedOptimizer.step() on a worker",
    "_script_local_optimizer_step": "PyTorch's own: DistributedOptimizer.step() on a worker",
    "_create_module": "PyTorch's own: a RemoteModule makes its module on its worker",
    "_create_module_with_interface": "PyTorch's own: a RemoteModule makes its module on its worker",
    "_param_rrefs": "PyTorch's own: RemoteModule.remote_parameters()",
    "_remote_forward": "PyTorch's own: a call of a RemoteModule",
    "_local_invoke": "PyTorch's own: a method of an RRef's value, called by rref.rpc_sync() and the like",
    "_local_invoke_async_execution": "PyTorch's own: a method of an RRef's value, called by "
    "rref.rpc_sync() and the like",
    "_rref_typeof_on_owner": "PyTorch's own: rref.rpc_sync() and the like ask for the type of the value",
    "_update_group_membership": "PyTorch's own, in a world that workers join and leave: one joined or left",
    "_get_device_infos": "PyTorch's own: a worker tells its devices, in a world that workers join and leave",
}


def about_function(label: str) -> str:
    """What a function of PyTorch's own is there for, "" for others. ``label``: its name, perhaps with
    its module, or after the name of who waits for it."""
    return FUNCTIONS.get(label.rpartition(": ")[2].rpartition(".")[2], "")


#: what a node of a graph is
ROLES = {
    "root": "where the pass began: the losses",
    "send": "here a tensor left for another worker; its gradient comes back by message",
    "recv": "here a tensor came from another worker; its gradient goes back by message",
    "leaf": "a parameter or another leaf: its gradient is accumulated in the context",
    "node": "one step of the backward pass",
}

WORDS = (
    ("1st context of worker2", "An autograd context, the gradients of one step: the first that worker2 began."),
    ("pass 1 in the 1st context of worker2", "A backward pass: the second that users started in this run, counted from 0, "
     "with its gradients in that context."),
    ("nodes of a pass", "All functions of autograd that the pass reached, on all workers: losses' root, operations, "
     "sends, recvs and leaves."),
    ("RRef 3 of worker0", "A remote reference: worker0 asked for it, and gave it number 3. Its owner has the value."),
    ("fork 10 of worker2", "One worker's handle on an RRef: worker2 gave it number 10; RRefs and forks are counted together. "
     "The owner keeps the value while there are forks."),
    ("autograd message 4 of worker2", "Tensors that worker2 sent within a context, and what a send and a recv function belong to."),
    ("_gather_to_leader, _receive_broadcast", "Functions of the RPC library's own: how workers wait for each other in rpc.shutdown()."),
    ("send, recv", "The two ends of a message in the autograd graph. Gradients go from the recv back to the send."),
    ("critical path", "The chain of events that decided when the step ended: had one of them been earlier, "
     "the end could have been."),
    ("#123", "An event by its number in the run; one after the other, also where virtual time stands still."),
)  # fmt: skip


def about_id(kind: str, name: str) -> str:
    """What an RRef or a fork is. ``name``: the worker that gave the number."""
    what = {
        "rref": "a remote reference; its owner has the value",
        "fork": "one worker's handle on the RRef; the owner keeps the value while there are forks",
    }[kind]
    return f"{what}; {name} gave the number"


def about_context(id: int, place: str) -> str:
    """What a context is. ``place``: the line that has begun it, if that is known."""
    begun = f", begun at {place}" if place else ""
    return f"an autograd context, the gradients of one step{begun}; its context_id is {id}"
