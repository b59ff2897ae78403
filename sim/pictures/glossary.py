"""What the words in pictures mean: in hover texts, and in a list on the page."""

from __future__ import annotations

#: what a program calls that itself calls functions of PyTorch's own on other workers, and what those are there for
FUNCTIONS = {
    "shutdown": "of rpc.shutdown(): a worker tells the leader that it has come so far, or the leader tells a "
    "worker that all have",
    "init_rpc": "of rpc.init_rpc() in a world that workers join and leave: one joined or left",
    "method of an RRef": "a method of an RRef's value, called by rref.rpc_sync() and the like",
    "type of an RRef": "rref.rpc_sync() and the like ask for the type of the value",
    "DistributedOptimizer": "it makes its part on a worker",
    "DistributedOptimizer.step": "it steps on a worker",
    "RemoteModule": "it makes its module on its worker",
    "RemoteModule.remote_parameters": "it asks for references to its parameters",
    "RemoteModule.forward": "a call of a remote module",
}


def about_function(label: str) -> str:
    """What a call of PyTorch's own is there for, "" for others. ``label``: what it is called for, perhaps after the
    name of who waits for it."""
    return FUNCTIONS.get(label.rpartition(": ")[2], "")


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
    ("shutdown, init_rpc", "As what is called: a call of the RPC library's own, by which workers wait for each other there."),
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
