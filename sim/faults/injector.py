"""From a fault plan to what happens: rules on the network, timers on workers.

    faults = Faults(plan, network, host)     # before the first message
    faults.begin()                           # the group stands: times and counts start

What an item does stands in the module of its kind (sim/faults/kinds/); here is what all have in
common. Rules by hand (:func:`drop` and its like, see sim/world/rules.py) can be had from here too.
Each thing that happens is an event ``fault_injected`` in the trace.
"""

from __future__ import annotations

import math
from typing import Any

from squall.real import tracing
from squall.real.rpc.message import Message
from squall.real.worker import Worker
from squall.sim.faults.fault import Effect, Host, Injection, Judge
from squall.sim.faults.inner import Inside
from squall.sim.faults.links import LateLink
from squall.sim.faults.messages import Counts, MessageEffect
from squall.sim.faults.moments import NETWORK
from squall.sim.faults.plan import Plan
from squall.sim.world.network import Network
from squall.sim.world.rules import Ruling, delay, drop, duplicate, fail, judge
from squall.sim.world.watch import current

__all__ = ["FaultInjector", "Host", "delay", "drop", "duplicate", "fail", "judge"]


class FaultInjector:
    """A plan at work in one run."""

    def __init__(self, plan: Plan, network: Network, host: Host) -> None:
        self.plan = plan
        self.active = False
        self._is_healed = False
        self._network = network
        self._tracer = network.tracer
        heal_s = math.inf if plan.heal_s is None else plan.heal_s
        self._injection = Injection(network, host, heal_s)
        self._has_moments = any(getattr(item, "moment", None) for _, _, item in plan.items())
        if self._has_moments:
            self._injection.moments.watch(NETWORK, self._tracer)
        self._effects: list[Effect[Any]] = [
            item.at_work(f"{group}[{at}]", self._injection) for group, at, item in plan.items()
        ]
        self._counts = Counts()
        self._of_messages = [e for e in self._effects if isinstance(e, MessageEffect)]
        # Whether there is a way at all is decided before what the links on it do.
        self._judges = sorted(
            (e for e in self._effects if isinstance(e, Judge)),
            key=lambda effect: effect.item.group != "partitions",
        )
        self._late_links = [e for e in self._effects if isinstance(e, LateLink)]
        self._inside = self._injection.shared(Inside)
        watcher = current()
        if watcher is not None:
            watcher.faults(self.heal)

    # -- for the host -----------------------------------------------------------------------

    def prepare(self, rank: int, worker: Worker) -> None:
        """Make a new process of that rank subject to the plan."""
        self._inside.prepare(worker)
        for effect in self._effects:
            effect.prepare(rank, worker)
        if self._has_moments:
            self._injection.moments.watch(rank, worker.tracer)

    def prepare_unnamed(self, worker: Worker) -> None:
        """Make a process subject to the plan that has no rank yet, as far as that goes before."""
        self._inside.prepare(worker)

    def threads(self, rank: int, default: int) -> int:
        """How many threads the agent of that rank has."""
        for effect in self._effects:
            default = effect.threads(rank, default)
        return default

    def start_delay_s(self, rank: int) -> float:
        """How much later than the others the process of that rank starts."""
        return sum((effect.start_delay_s(rank) for effect in self._effects), 0.0)

    def begin(self) -> None:
        """Times and counts start now."""
        if self.active or self._is_healed:
            return
        self.active = True
        injection = self._injection
        injection.start_s = injection.runtime.env.now
        self._inside.active = True
        if self._of_messages or self._judges:
            self._network.add_rule(self._judge)
        if self._late_links:
            self._network.conditions = self
        for effect in self._effects:
            effect.begin()
        if self.plan.heal_s is not None:
            injection.runtime.call_later(self.plan.heal_s, self.heal).worker = None

    def heal(self) -> None:
        """End all faults, or let there be none: see :mod:`squall.sim.faults.plan`."""
        self._is_healed = True
        if not self.active:
            return
        self.active = False
        self._injection.cancel_timers()
        self._injection.moments.clear()
        self._network.conditions = None
        self._inside.active = False
        if self._of_messages or self._judges:
            self._network.remove_rule(self._judge)
        for effect in self._effects:
            effect.heal()
        if self._tracer.enabled:
            self._tracer.emit(tracing.FAULTS_HEALED)

    # -- for the network ----------------------------------------------------------------------

    def _judge(self, message: Message) -> Ruling | None:
        """The rule on the network: items about messages, then partitions, then links."""
        if message.src == message.dst:
            return None
        nth, time_s = self._counts.next(message), self._injection.time_s()
        verdict: Ruling | None = None
        for effect in self._of_messages:
            # Everybody counts, so that taking away one item changes nothing for the others.
            if effect.matches(message, time_s) and verdict is None:
                verdict = effect.verdict(message, nth)
        if verdict is not None:
            return verdict
        for way in self._judges:
            verdict = way.judge(message, nth, time_s)
            if verdict is not None:
                return verdict
        return None

    def arrival_s(self, message: Message, sent_s: float, arrives_s: float) -> float:
        """When a message arrives that would arrive at ``arrives_s`` (see Conditions)."""
        time_s = sent_s - self._injection.start_s
        for effect in self._late_links:
            if effect.covers(message, time_s):
                before_s = arrives_s
                arrives_s = effect.arrival_s(message, sent_s, arrives_s)
                if arrives_s != before_s:
                    self._injection.report_message(
                        effect.item.kind, effect.name, message, arrives_s - before_s
                    )
        return arrives_s
