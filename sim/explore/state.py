"""The final state of an execution, in words that equivalent executions share.

No ids, times and numbers of events: they say in which order things were, and not what came of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

from torch import Tensor

from squall.model.program.compare import to_dense
from squall.real.worker import Worker

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
#: fields of outcomes that have ids, or say only how something was computed
_LEFT_OUT = frozenset({"context", "graphs"})


def shown(value: Any) -> str:
    """A value in words: of an error its kind and its text without numbers, of a tensor all that it
    holds."""
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {_NUMBER.sub('#', str(value))}"
    if isinstance(value, Tensor):
        return repr(to_dense(value.detach()).tolist())
    if isinstance(value, Mapping):
        return "{" + ", ".join(sorted(f"{shown(k)}: {shown(v)}" for k, v in value.items())) + "}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(map(shown, value)) + ")"
    if is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in fields(value) if each.name not in _LEFT_OUT]
        return shown({name: getattr(value, name) for name in names})
    return repr(value)


def tables(workers: Iterable[Worker]) -> tuple[tuple[int, ...], ...]:
    """What the tables of each worker hold: RRefs, contexts, passes, calls, retries."""
    return tuple(map(_table, workers))


def _table(worker: Worker) -> tuple[int, ...]:
    rrefs, container, engine, agent = (
        worker.rref_context,
        worker.container,
        worker.engine,
        worker.agent,
    )
    counts: list[int] = []
    if rrefs is not None:
        owned, used = rrefs.owner_tables, rrefs.user_tables
        counts += [
            len(owned.owners),
            sum(len(forks) for forks in owned.forks.values()),
            len(used.pending_users),
            len(used.pending_children),
            len(owned.pending_owners),
            sum(user() is not None for user in list(used.confirmed_users.values())),
        ]
    if container is not None:
        counts.append(container.num_autograd_contexts())
    if engine is not None:
        counts.append(engine.num_backward_passes())
    if agent is not None:
        metrics = agent.get_debug_info()
        counts += [int(metrics[f"agent.{side}_active_calls"]) for side in ("client", "server")]
        counts.append(len(getattr(agent, "retries", ())))
    return tuple(counts)


def digest(parts: Sequence[str]) -> str:
    """Sixteen hex digits over what a final state says."""
    return blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()
