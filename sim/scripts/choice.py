"""The order of a script that somebody chooses: from when its group stands until all leave it."""

from __future__ import annotations

from squall.sim.scripts.compat.launcher import Launcher
from squall.sim.scripts.compat.process import SimProcess
from squall.sim.world.controlled_time import ChosenTime, NotExplorableError
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.trace import Trace


class GroupChoice:
    """Begins a choice when the first group of a script stands, and ends it when the last of its
    members begins to shut down: how they meet and part is not chosen."""

    def __init__(self, runtime: SimRuntime, time: ChosenTime, trace: Trace) -> None:
        self._runtime = runtime
        self._time = time
        self._trace = trace
        #: how many events there were before
        self.events_before = 0
        self._members: set[SimProcess] = set()
        self._left: set[SimProcess] = set()
        self._stands = runtime.event("all workers to join")
        #: how many members the group has, once one of them has joined
        self._size = 0

    @property
    def begun(self) -> bool:
        """Whether there was a group."""
        return self._stands.is_set()

    def serve(self, launcher: Launcher) -> None:
        """Take the processes of ``launcher``, which has not started any."""
        table = launcher.table
        before = table.on_joined

        def joined(process: SimProcess) -> None:
            self._count(process)
            if before is not None:  # faults begin when all have joined, and may end one of them
                before(process)
            self._go_on()

        table.on_joined = joined
        table.on_leaving = self._leaving

    def _count(self, process: SimProcess) -> None:
        if self.begun:
            return  # another group: what happens to it is chosen as everything else is
        agent = process.worker.agent
        assert agent is not None, "it has just joined"
        if not agent.is_static_group:
            raise NotExplorableError("workers join and leave its group at any time")
        self._members.add(process)
        self._size = len(agent.get_worker_infos())

    def _go_on(self) -> None:
        if self.begun:
            return
        if len(self._members) < self._size:
            self._stands.wait()  # nobody is ahead
            return
        self.events_before = len(self._trace.records)
        self._stands.set()
        self._time.begin()
        self._runtime.sleep(0.0)  # nobody has chosen yet who goes first

    def _leaving(self, process: SimProcess) -> None:
        self._left.add(process)
        if self.begun and self._members <= self._left:
            self._time.end()
