"""What ``squall explore`` says of a script whose ranks speak in process groups, for people and for machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from squall.sim.cli.panels import print_panel, summary_table, verdict
from squall.sim.explore.group_orders import Choice, End, Sends
from squall.sim.explore.group_program import Begin
from squall.sim.explore.groups import SENDS, GroupOrders

#: what sends do, and of whom it is known
_SENDS: dict[Sends, str] = {
    "rendezvous": "sends wait for their receivers (gloo; MPI, if they are large)",
    "streams": "what comes after a send waits, too (NCCL, if they are large)",
    "buffered": "sends do not wait (MPI, if they are small)",
}
NOT_COVERED = (
    "what a script does on because of values that it has received, but for which message came first",
    "limits of operations, and processes that end",
)


@dataclass
class ToldOfGroups:
    """One script: what was given, and what came of it."""

    text: str
    orders: GroupOrders

    @property
    def outcome(self) -> str:
        if self.orders.interrupted:
            return "interrupted"
        if not self.orders.good:
            return "failed"
        return "ok" if self.exhausted else "not exhausted"

    @property
    def exhausted(self) -> bool:
        return self.orders.whole and not self.orders.polled

    def to_json(self) -> dict[str, Any]:
        orders = self.orders
        return {
            "scenario": self.text,
            "outcome": self.outcome,
            "exhausted": self.exhausted,
            "runs": orders.runs,
            "backends": list(orders.backends),
            "sends": {
                sends: {
                    "orders": orders.orders[sends],
                    "ends": [
                        {
                            "outcome": outcome,
                            "lines": list(end.lines),
                            "taken": [self._taken(choice) for choice in end.choices],
                        }
                        for outcome, end in orders.ends[sends].items()
                    ],
                }
                for sends in SENDS
            },
            "asked_whether_over": list(orders.polled),
            "not_covered": list(NOT_COVERED),
        }

    def _taken(self, choice: Choice) -> str:
        (rank, thread, number), source = choice
        actions = self.orders.program.ranks[rank][thread]
        begins = [each for each in actions if isinstance(each, Begin)]
        where = f" at {begins[number].place}" if number < len(begins) else ""
        return f"rank {rank} receives from rank {source}{where}"

    def print(self, console: Console) -> None:
        orders, table = self.orders, summary_table()
        table.add_row("outcome", verdict(self._in_words(), good=self.outcome == "ok"))
        for sends, told in _SENDS.items():
            table.add_row(sends, f"{told}: {self._said(sends)}")
            for outcome, end in orders.ends[sends].items():
                for line in self._lines(end) if outcome != "ok" else ():
                    style = "red" if self.outcome == "failed" else "yellow"
                    table.add_row("", Text(line, style=style))
        table.add_row("explored", f"{orders.runs:,} run{'s' * (orders.runs != 1)} of the script")
        good = {"ok": True, "failed": False}.get(self.outcome)
        print_panel(console, table, f"squall explore {self.text}", good=good)
        for place in orders.polled:
            text = f"not covered: where {place} asks for the state or the future of an operation"
            console.print(Text(text, style="dim"))
        for text in NOT_COVERED:
            console.print(Text(f"not covered: {text}", style="dim"))

    def _said(self, sends: Sends) -> str:
        ends, orders = self.orders.ends[sends], self.orders.orders[sends]
        if not ends and self.orders.interrupted:
            return "unknown, it was interrupted"
        if not ends:
            return "it has no receive from any rank"
        bad = [_NAMED[outcome] for outcome in ends if outcome != "ok"]
        some = "some" if bad and "ok" in ends else "all"
        where = f", in {some} of {orders:,} orders" if orders > 1 else ""
        return (" or ".join(bad) or "every rank ends") + where

    def _lines(self, end: End) -> list[str]:
        taken = [self._taken(choice) for choice in end.choices]
        return [*([f"if {', and '.join(taken)}:"] if taken else []), *end.lines]

    @property
    def _where(self) -> str:
        return f"on {' and '.join(self.orders.backends)}"

    def _in_words(self) -> str:
        if self.outcome == "ok":
            return f"every rank ends in every order {self._where}"
        if self.outcome == "failed":
            return f"not every rank ends {self._where}"
        return f"{self.outcome}: nothing found so far"


_NAMED = {
    "deadlock": "a deadlock",
    "mismatch": "operations that do not go together",
    "error": "an error of the script",
    "left": "a rank that waits for one that has ended",
}
