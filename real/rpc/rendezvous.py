"""Where workers meet: from an init method to a store, and from a store to a group.

The forms of init methods and the errors are those of torch/distributed/rendezvous.py; the
checks of the group those of ``init_backend`` and the TensorPipe agent's constructor.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import lru_cache
from numbers import Integral
from typing import Any
from urllib.parse import ParseResult, parse_qsl, urlparse

from torch.distributed import DistStoreError

from squall.real.rpc.store import Store, StoreTimeoutError
from squall.real.rpc.worker_info import Membership, check_worker_info

#: how long the first worker waits for the last (torch/distributed/constants.py, 30 minutes)
JOIN_TIMEOUT_S = 1800.0


MIXED_GROUP = (
    "RPC group mixes statically and dynamically initialized members which is not supported."
)


def dynamic_store_key(url: Any, rank: Any, schemes: Collection[str] = ()) -> str:
    """What names the store of a group of no fixed size. Raises ValueError without a rank."""
    scheme = urlparse(os.fsdecode(url)).scheme
    if rank == -1:
        if scheme != "env":
            raise _error(f"{scheme}:// rendezvous: rank parameter missing")
        _variable("RANK")
    # The world size is not looked at; one that is given asks for no other.
    return store_key(url, 0 if rank is None else rank, 0, schemes)


def store_key(url: Any, rank: Any, world_size: Any, schemes: Collection[str] = ()) -> str:
    """What names the store that ``url`` stands for. Raises ValueError or RuntimeError.

    ``schemes``: what else than PyTorch's a URL may begin with; see :attr:`World.schemes`.
    """
    if not isinstance(url, str | bytes):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url!r}")
    if not isinstance(rank, Integral):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, Integral):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    parsed = _parsed(os.fsdecode(url))
    query = dict(parse_qsl(parsed.query)) if parsed.query else {}
    if (rank != -1 or world_size != -1) and ("rank" in query or "world_size" in query):
        raise AssertionError(
            f"The url: {parsed.geturl()} has node-specific arguments(rank, world_size) already."
        )
    match parsed.scheme:
        case "env":
            if rank == -1:
                _variable("RANK")
            if world_size == -1:
                _variable("WORLD_SIZE")
            address = _variable("MASTER_ADDR")
            port = int(_variable("MASTER_PORT"))
            return f"tcp://{address}:{_checked_port(port)}"
        case "tcp":
            if parsed.port is None:
                raise _error("tcp:// rendezvous: port number missing")
            return f"tcp://{parsed.hostname}:{_checked_port(parsed.port)}"
        case "file":
            if not parsed.path:
                raise _error("file:// rendezvous: path missing")
            return f"file://{parsed.path}"
        case scheme if scheme in schemes:
            return _url(parsed)
    raise RuntimeError(f"No rendezvous handler for {parsed.scheme}://")


# All workers of a group name the same place.
_parsed = lru_cache(maxsize=64)(urlparse)
_url = lru_cache(maxsize=64)(ParseResult.geturl)


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise _error(f"env:// rendezvous: environment variable {name} expected, but not set")
    return value


def _checked_port(port: int) -> int:
    if not 0 <= port < 2**16:
        raise ValueError(f"port must have value from 0 to 65535 but was {port}.")
    return port


def _error(text: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {text}")


def gather_group(store: Store, name: str, rank: int, world_size: int) -> Membership:
    """Wait for all workers of a static group and give them.

    Raises RuntimeError, on every worker, if the group contradicts itself: two workers of one
    name or rank, a rank out of range, different world sizes; DistStoreError if a worker is
    missing after half an hour.
    """
    info = check_worker_info(name, rank)
    if store.peek("membership/tickets") is not None:
        raise RuntimeError(MIXED_GROUP)
    size = store.first("world_size", world_size)
    if size != world_size:
        raise _reject(store, f"world_size argument {world_size} doesn't match pg size {size}")
    if rank >= world_size:
        raise _reject(store, f"rank argument out of range: rank < size. {rank} vs {world_size}")
    if store.first(f"rank/{rank}", info) is not info:
        raise _reject(store, f"rank argument {rank} is taken by another worker of the group")
    if store.add("joined", 1) == world_size:
        # The last to come reads for all: a thousand workers need not read a thousand keys each.
        store.set("group", Membership([store.peek(f"rank/{i}") for i in range(world_size)]))
    try:
        group = store.get("group", JOIN_TIMEOUT_S)
    except StoreTimeoutError:
        raise DistStoreError(
            f"Timed out after {int(JOIN_TIMEOUT_S) + 1} seconds waiting for clients. "
            f"{store.peek('joined', 0)}/{world_size} clients joined."
        ) from None
    if isinstance(group, str):
        raise RuntimeError(group)
    members: Membership = group
    if problem := not_unique({info.id: info.name for info in members.infos}, rank):
        raise problem
    return members


def rejoin_group(store: Store, name: str, rank: int) -> Membership | None:
    """The group that an earlier process of this rank was in; None if it was in none yet.

    Raises RuntimeError if that was called something else.
    """
    check_worker_info(name, rank)
    group = store.peek("group")
    if not isinstance(group, Membership):
        return None
    if group.by_id[rank].name != name:
        raise RuntimeError(f"worker {rank} of the group is {group.by_id[rank].name}, not {name}")
    return group


def _reject(store: Store, why: str) -> RuntimeError:
    """Fail whoever waits for the group, too: it cannot be completed any more."""
    if store.peek("group") is None:
        store.set("group", why)
    return RuntimeError(why)


def not_unique(names: Mapping[int, str], own: int) -> RuntimeError | None:
    """The error of workers two of which have one name, as the worker with the id ``own`` finds it."""
    ids: dict[str, int] = {}
    for id, name in {own: names[own], **names}.items():
        if name in ids:
            return RuntimeError(
                f"RPC worker name {name} is not unique. Workers {ids[name]} and {id} share the same name."
            )
        ids[name] = id
    return None
