"""What a worker may hold when nothing is under way and nobody keeps a reference.

Everything else that its objects hold then is left behind: a container that is not empty, a number
that is not 0, a flag that is set, a lock that is held. Written from what each table is for; one
that is new has to be empty unless it is named here.
"""

from __future__ import annotations

#: the end of the name of a place that was looked at after a pass, while its context was open
AFTER_A_PASS = " after a pass"

_OVER = "ids of what is over, kept for whatever comes late"
_IDENTITY = "who the worker is and what it was told at its start"

#: by (class, attribute): ids and texts of what is over. Nothing else may be in these tables
REMEMBERED: dict[tuple[str, str], str] = {
    ("RpcAgent", "_seen"): _OVER,
    ("CallTable", "_expired"): _OVER,
    ("OwnerTables", "_deleted_forks"): _OVER,
    ("OwnerTables", "_ended"): _OVER,
    ("UserTables", "_arrived"): _OVER,
    ("DistAutogradContainer", "_released"): _OVER,
    ("DistAutogradContainer", "_untold"): _OVER,
    ("DistAutogradContainer", "_missed"): _OVER,
}

_JUDGED = "counted in the event tables_counted, and judged by the properties rrefs and contexts"

#: by (class, attribute): what the events of a run tell anyway, which know what faults excuse
COUNTED: dict[tuple[str, str], str] = {
    ("OwnerTables", "owners"): _JUDGED,
    ("OwnerTables", "pending_owners"): _JUDGED,
    ("OwnerTables", "forks"): _JUDGED,
    ("UserTables", "pending_users"): _JUDGED,
    ("UserTables", "pending_children"): _JUDGED,
    ("UserTables", "confirmed_users"): _JUDGED,
    ("DistAutogradContainer", "_contexts"): _JUDGED,
    ("DistEngine", "_initialized_context_ids"): _JUDGED,
}

_UNTIL_RELEASE = "what is recorded in a context, which is looked at while it is open"

#: by (class, attribute): why it may hold something
KEPT: dict[tuple[str, str], str] = {
    ("Worker", "id"): _IDENTITY,
    ("Worker", "incarnation"): _IDENTITY,
    ("Worker", "shut_down"): "the last group was left gracefully",
    (
        "Worker",
        "locals",
    ): "what is private to a process beside its parts; lists in it are looked at",
    ("DistAutogradContext", "_grad_ready_events"): _UNTIL_RELEASE,
    ("Worker", "modules"): "the process's own copies of user modules",
    ("Worker", "interceptor"): "whoever steps in on what happens here, faults for instance",
    ("RpcAgent", "is_running"): "until shutdown",
    ("RpcAgent", "is_static_group"): _IDENTITY,
    ("RpcAgent", "gil_profiling"): "a setting",
    ("RpcAgent", "device_maps"): "a setting",
    ("RpcAgent", "reverse_device_maps"): "a setting",
    ("RpcAgent", "devices"): "a setting",
    ("RpcAgent", "_has_maps"): "a setting",
    ("RpcAgent", "members"): "the workers of the group, which are there until all have left",
    ("RpcAgent", "store"): "the group's own, not the worker's",
    ("RpcAgent", "_group"): "the group's own, not the worker's",
    ("InFlight", "ever_made"): "how many calls there were, which only the end of a group compares",
    ("GroupJoin", "_store"): "the group's own, not the worker's",
    ("TaskPool", "size"): "a setting",
    ("RequestCallback", "_handlers"): "what answers which type of request",
    ("RpcState", "init_count"): "how many groups the process has joined",
    ("RpcState", "ignore_rref_leak"): "a setting",
    ("RpcState", "gather_counts"): "how many gathers there were, which numbers the next one",
    ("RpcState", "class_reducers"): "what the worker's code has registered",
    ("RpcState", "replaced"): "what a script has put in the place of functions",
    ("RpcState", "matches"): "which overloads calls have meant, a limited number",
    ("RRefContext", "leaving"): "from the shutdown on",
    ("RRefSession", "destroyed"): "from the shutdown on",
    ("DistAutogradContainer", "worker_id"): _IDENTITY,
    ("DistAutogradContainer", "_context_ids"): "ids that were given are not given again",
    ("DistAutogradContainer", "_message_ids"): "ids that were given are not given again",
    ("DistAutogradContext", "_worker"): "it is looked at by itself",
    ("DistAutogradContext", "context_id"): _IDENTITY,
    ("DistAutogradContext", "_known_workers"): _UNTIL_RELEASE,
    ("DistAutogradContext", "_sends"): _UNTIL_RELEASE,
    ("DistAutogradContext", "_recvs"): _UNTIL_RELEASE,
    ("DistAutogradContext", "_grads"): _UNTIL_RELEASE,
    ("DistAutogradContext", "released"): "from its release on",
    ("DistAutogradContext", "lost_worker"): _UNTIL_RELEASE,
    ("DistAutogradContext", "latest_pass"): _UNTIL_RELEASE,
    ("DistAutogradContext", "passes"): _UNTIL_RELEASE,
    ("SendRpcBackward", "to"): _UNTIL_RELEASE,
    ("SendRpcBackward", "fed_in"): _UNTIL_RELEASE,
    ("DistEngine", "_pass_ids"): "ids that were given are not given again",
    ("DistEngine", "_devices"): "tasks that serve devices, and their queues, until shutdown",
    ("DistEngine", "_engine"): "what evaluates nodes: it keeps nothing of a pass",
}
