"""Leases judged on the machines of a Ray cluster. Imported only where Ray is asked for."""

from __future__ import annotations

import os
import pickle
import socket
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

# before Ray reads them: it tells nobody that it is used, and nobody about processors without GPUs
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from squall.sim.campaigns.host import HostEndedError
from squall.sim.campaigns.hosted import MODULE, Question, Start, Stop, answered
from squall.sim.campaigns.place import Done, Event, Heard, Joined, Left, PlaceError
from squall.sim.campaigns.plan import Lease
from squall.sim.campaigns.pool import Pool
from squall.sim.campaigns.ray_station import Station

#: real seconds between two looks at which machines there are, and after which a station answers
#: though it has nothing to tell
_NODES_S, _ANSWER_S = 5.0, 1.0
#: real seconds until it must take a connection
_REACH_S = 10.0
#: real seconds for which Ray's head may not answer: a Ray of our own, and one that a network may be
#: between; after them Ray ends this process
_PATIENCE_S, _PATIENCE_FAR_S = 15, 180
#: what Ray says where the process that was to serve a driver has not come, how often it is asked for, and
#: seconds between
_NO_SERVER, _SERVER_TRIES, _SERVER_PAUSE_S = "Initialization failure from server", 3, 1.0
#: stations that may end one after the other before any has begun to work
_FAILED = 5
#: bytes of Ray's store for objects, where it is ours: messages are small and go beside it
_OBJECTS = 80 * 2**20
#: real seconds for which stations may end by themselves
_CLOSE_S = 5.0


@dataclass
class _Station:
    """An actor. ``call``: the question that it has not answered."""

    actor: Any
    node: str
    call: Any = None
    joined: bool = False
    commands: list[Start | Stop] = field(default_factory=list)
    room: int = 1


class RayCluster:
    """A worker (:class:`.place.Place`) for each machine of the cluster at ``address``, also for those
    that come later; None: a Ray of its own on this machine.

    ``jobs``: leases that each judges at the same time; by default, and at most, as many as Ray says
    that the machine has processors. Actors are not started again by Ray, nor are their calls: what is lost
    is told, and the driver hands it out again.
    """

    def __init__(
        self,
        address: str | None = None,
        jobs: int | None = None,
        *,
        memory_bytes: int | None = None,
    ) -> None:
        self._address, self._jobs, self._memory_bytes = address, jobs, memory_bytes
        self._stations: dict[str, _Station] = {}
        self._numbers: defaultdict[str, count[int]] = defaultdict(count)
        self._connected = False
        self._nodes_next = 0.0
        self._failed = 0

    def start(self, worker: str, lease: Lease) -> None:
        if worker in self._stations:
            self._stations[worker].commands.append(Start(worker, lease))

    def stop(self, worker: str) -> None:
        station = self._stations.pop(worker, None)
        if station is not None:
            self._end(station)

    def poll(self, timeout_s: float) -> list[Event]:
        if not self._connected:
            self._connect()
        try:
            return self._happened(timeout_s)
        except ConnectionError as error:  # of a client: Ray ends the process of any other driver
            raise PlaceError(f"Ray at {self._address} is gone: {reason(error)}") from None

    def _happened(self, timeout_s: float) -> list[Event]:
        events: list[Event] = []
        self._look_at_nodes(events)
        calls = {}
        for name, station in self._stations.items():
            if station.call is None:
                question = Question(tuple(station.commands), _ANSWER_S, max(1, station.room // 2))
                station.commands.clear()
                station.call = station.actor.exchange.remote(pickle.dumps(question))
            calls[station.call] = name
        if not calls:
            time.sleep(timeout_s)
            return events
        ready, _ = ray.wait(list(calls), num_returns=1, timeout=timeout_s)
        if ready:
            ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
        for call in ready:
            events += self._answered(calls[call])
        return events

    def close(self) -> None:
        if not self._connected:
            return
        with suppress(Exception):  # it may be Ray that has ended
            closing = [station.actor.close.remote() for station in self._stations.values()]
            if closing:
                ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_S)
            for station in self._stations.values():
                self._end(station)
        self._stations.clear()
        with suppress(Exception):
            ray.shutdown()
        self._connected = False

    def _connect(self) -> None:
        patience_s = _PATIENCE_S if self._address is None else _PATIENCE_FAR_S
        os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(patience_s))
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        where = "none can be started" if self._address is None else f"none at {self._address}"
        if self._address is not None:
            try:
                _reach(self._address)
            except OSError as error:
                raise PlaceError(f"Ray: {where}: {reason(error)}") from None
        try:
            if self._address is None:
                ray.init(
                    "local",
                    num_cpus=self._jobs,
                    include_dashboard=False,
                    object_store_memory=_OBJECTS,
                    **quiet,
                )
            else:
                join(self._address, quiet)
        except Exception as error:
            problem = f"{reason(error)}{_expected(self._address)}"
            raise PlaceError(f"Ray: {where}: {problem}") from None
        self._connected = True

    def _look_at_nodes(self, events: list[Event]) -> None:
        now = time.monotonic()
        if now < self._nodes_next:
            return
        self._nodes_next = now + _NODES_S
        there = {station.node for station in self._stations.values()}
        nodes = ray.nodes()
        if self._address is None and not any(node["Alive"] for node in nodes):
            raise PlaceError("Ray on this machine has ended")
        for node in nodes:
            processors = int(node["Resources"].get("CPU", 0))
            jobs = min(self._jobs or processors, processors)
            if not node["Alive"] or node["NodeID"] in there or jobs < 1:
                continue
            number = next(self._numbers[node["NodeID"]])
            name = f"{node['NodeManagerAddress']}/{node['NodeID'][:6]}.{number}"
            self._stations[name] = self._station(node["NodeID"], jobs)

    def _station(self, node: str, jobs: int) -> _Station:
        on_node = NodeAffinitySchedulingStrategy(node, soft=False)
        actor = (
            ray.remote(Station)
            .options(num_cpus=jobs, max_restarts=0, max_task_retries=0, scheduling_strategy=on_node)
            .remote(MODULE)
        )
        make = partial(Pool, jobs, ahead=jobs, memory_bytes=self._memory_bytes)
        return _Station(actor, node, actor.exchange.remote(pickle.dumps(make)))

    def _answered(self, name: str) -> list[Event]:
        """What a station tells, as of the worker of that name."""
        station = self._stations[name]
        call, station.call = station.call, None
        try:
            told = answered(ray.get(call))
        except (RayError, HostEndedError, PlaceError) as error:
            del self._stations[name]
            self._end(station)
            why = reason(error)
            if "No module named" in str(error):
                raise PlaceError(f"the worker {name} has no such squall: {why}") from None
            self._failed += not station.joined
            if self._failed == _FAILED:
                raise PlaceError(f"{_FAILED} workers have not begun, {name} last: {why}") from None
            return [Left(name, why)] if station.joined else []
        events: list[Event] = []
        for event in told:
            match event:
                case Joined(_, jobs, room, versions):
                    station.joined, station.room, self._failed = True, jobs, 0
                    events.append(Joined(name, jobs, room, versions))
                case Heard(_, verdicts):
                    events.append(Heard(name, verdicts))
                case Done(_, judged):
                    events.append(Done(name, judged))
                case Left(_, why):
                    events.append(Left(name, why))
        return events

    def _end(self, station: _Station) -> None:
        with suppress(Exception):  # it may be gone
            ray.kill(station.actor)


def _reach(address: str) -> None:
    """Raises OSError where nobody answers, for which Ray would wait for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        with socket.create_connection((host.strip("[]"), int(port)), _REACH_S):
            pass


def join(address: str, quiet: dict[str, Any]) -> None:
    """Of the machine at ray:// a process is asked for that serves this driver alone: where it is slow,
    Ray has given it up before it was there."""
    for again in reversed(range(_SERVER_TRIES)):
        try:
            ray.init(address, **quiet)
        except ConnectionError as error:
            if not again or _NO_SERVER not in str(error):
                raise
            time.sleep(_SERVER_PAUSE_S)
        else:
            return


def _expected(address: str | None) -> str:
    """What would be right, where somebody answers at an address and it is no Ray for us."""
    if address is None or address == "auto":
        return ""
    if address.startswith("ray://"):
        return ", expected the port of ray start --ray-client-server-port (10001 by default)"
    return ", expected HOST:PORT of its head, and RAY_AUTH_MODE=token if that asks for a token"


def reason(error: BaseException) -> str:
    """The line of Ray's text that says what it is."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    missing = next((line for line in lines if "No module named" in line), None)
    first = next(iter(lines), type(error).__name__)
    if first.endswith(":") and len(lines) > 1:  # a traceback of the other side follows
        first = f"{first} {lines[-1]}"
    return (missing or first)[:300].rstrip(".:")
