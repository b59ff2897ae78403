"""Where workers meet, the options that they meet with, and what is left of earlier groups."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 205
MUTANTS = (
    Mutant(
        name="rank-told-twice-is-taken",
        wrong="an init method that names a rank is taken, although ranks are given",
        place="rpc.rendezvous:store_key",
        old='if (rank != -1 or world_size != -1) and ("rank" in query or "world_size" in query):',
        new='if (rank != -1 or world_size != -1) and "rank" in query and "world_size" in query:',
    ),
    Mutant(
        name="port-left-out-is-one",
        wrong="workers meet at an address without a port",
        place="rpc.rendezvous:store_key",
        old="            if parsed.port is None:\n"
        '                raise _error("tcp:// rendezvous: port number missing")\n'
        '            return f"tcp://{parsed.hostname}:{_checked_port(parsed.port)}"\n',
        new='            return f"tcp://{parsed.hostname}:{_checked_port(parsed.port or 29500)}"\n',
    ),
    Mutant(
        name="same-name-as-itself",
        wrong="who shares a name with another worker is told that it shares it with itself",
        place="rpc.rendezvous:not_unique",
        old="Workers {ids[name]} and",
        new="Workers {id} and",
    ),
    Mutant(
        name="other-devices-are-taken",
        wrong="options take the CPU for a device of CUDA",
        place="rpc.options:_device_list",
        old='device.type not in ("cuda", device_type())',
        new='device.type not in ("cuda", "cpu", device_type())',
    ),
    Mutant(
        name="map-to-one-device-is-taken",
        wrong="a map that sends two devices to the same one is taken",
        place="rpc.options:_device_map",
        old="        if target in backward:\n",
        new="        if target in backward and source in forward:\n",
    ),
    Mutant(
        name="backend-is-registered-over",
        wrong="a backend takes the place of another one of its name",
        place="rpc.backend_registry:register_backend",
        old="    if backend_registered(backend_name):\n",
        new="    if False:\n",
    ),
    Mutant(
        name="reference-of-an-earlier-group-is-forked",
        wrong="a reference that a shutdown has deleted can be passed on in the next group",
        place="rpc.rref_context:RRefContext.prepare_child_fork",
        old="if isinstance(rref, UserRRef) and rref.deleted:",
        new="if False:",
    ),
    Mutant(
        name="every-reference-ends-with-a-process",
        wrong="when a process has ended, references to the values of other workers fail as well",
        place="rpc.rref_users:UserTables.process_ended",
        old="if user.owner_id == worker_id and not user.failed:",
        new="if not user.failed:",
        needs="K",
    ),
)
