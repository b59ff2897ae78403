"""The options of ``squall campaign`` that say where leases are judged, and the place they name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput

if TYPE_CHECKING:
    from squall.sim.campaigns.place import Place

#: where leases are judged
PLACES = ("pool", "ray", "index")
#: what Kubernetes tells each pod of an indexed Job, and what its manifest has to say beside it
INDEX_VARIABLE, OF_VARIABLE = "JOB_COMPLETION_INDEX", "JOB_COMPLETION_COUNT"
#: a process must be able to have more memory, by this factor, than the driver that it is a copy of
_AT_LEAST = 1.2


def _ray_address(text: str) -> str:
    found = re.fullmatch(r"(?:ray://)?[A-Za-z0-9_.\[\]:-]+:([0-9]{1,5})", text)
    if text == "auto" or (found is not None and 0 < int(found[1]) < 2**16):
        return text
    raise BadInput(
        "--ray-address", text, f"expected auto, HOST:PORT or ray://HOST:PORT, got {text!r}"
    )


On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="|".join(PLACES),
        help="Where: processes on this machine (pool, the default), all machines of a Ray cluster, or "
        "the share of this machine alone (index).",
        parser=parsers.one_of("--on", PLACES),
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="auto|HOST:PORT|ray://HOST:PORT",
        help="With --on ray: the cluster (default: a Ray of its own on this machine).",
        parser=_ray_address,
    ),
]
WorkerMemory = Annotated[
    int | None,
    typer.Option(
        "--worker-memory",
        metavar="SIZE",
        help="Memory with which a process is ended, as in 500M or 2G; a scenario that needs more has "
        "failed (default: no limit).",
        parser=parsers.size_bytes("--worker-memory"),
    ),
]


class Where(NamedTuple):
    """What was asked for."""

    on: str | None = None
    ray_address: str | None = None
    jobs: int | None = None
    memory_bytes: int | None = None

    def check(self, *, share: bool) -> None:
        """``share``: whether one of several is played. Raises BadInput."""
        if self.ray_address is not None and self.on != "ray":
            raise BadInput("--ray-address", self.ray_address, "expected --on ray with it")
        if self.on == "index" and not share:
            problem = f"index: expected --index, or {INDEX_VARIABLE} and {OF_VARIABLE}"
            raise BadInput("--on", "index", problem)

    def name(self, *, share: bool) -> str:
        return self.on or ("index" if share else "pool")

    def place(self) -> Place:
        """Nothing of it is started yet. Raises BadInput, PlaceError."""
        from squall.sim.campaigns.pool import Pool
        from squall.sim.campaigns.ray_place import ray_place
        from squall.sim.world.sandbox import resident_bytes

        limit, used = self.memory_bytes, resident_bytes()
        if limit is not None and limit < _AT_LEAST * used:
            raise BadInput(
                "--worker-memory",
                f"{limit >> 20}M",
                f"expected more than {int(_AT_LEAST * used) >> 20}M, got {limit >> 20}M: a process begins "
                f"with {used >> 20}M",
            )
        if self.on == "ray":
            return ray_place(self.ray_address, self.jobs, memory_bytes=limit)
        return Pool(self.jobs or 1, memory_bytes=limit)
