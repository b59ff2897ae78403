"""What ``squall explore`` says of a script whose ranks speak in process groups, for people and for machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from squall.sim.cli.panels import print_panel, summary_table, verdict
from squall.sim.explore.group_orders import Choice, End
from squall.sim.explore.group_program import Begin
from squall.sim.explore.groups import SENDS, GroupOrders

#: what sends do, and of whom it is known
_SENDS = {
    "rendezvous": "sends wait for their receivers (gloo; NCCL and MPI, if they are large)",
    "buffered": "sends do not wait (NCCL and MPI, if they are small)",
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
        for sends in reversed(SENDS):
            ends = orders.ends[sends]
            many = f"{orders.orders[sends]:,} order{'s' * (orders.orders[sends] != 1)}"
            bad = [end for outcome, end in ends.items() if outcome != "ok"]
            if not bad:
                table.add_row(sends, f"{_SENDS[sends]}: every rank ends, in {many} that differ")
                continue
            kinds = " or ".join(_NAMED[end.outcome] for end in bad)
            table.add_row(sends, f"{_SENDS[sends]}: {kinds}, in some of {many}" if "ok" in ends else f"{_SENDS[sends]}: {kinds}")
            for end in bad:
                for line in self._lines(end):
                    table.add_row("", Text(line, style="red"))
        table.add_row("explored", f"{orders.runs:,} run{'s' * (orders.runs != 1)} of the script")
        print_panel(console, table, f"squall explore {self.text}", good=self.outcome == "ok" or None)
        for place in orders.polled:
            text = f"not covered: other answers, where {place} asks whether an operation is over"
            console.print(Text(text, style="dim"))
        for text in NOT_COVERED:
            console.print(Text(f"not covered: {text}", style="dim"))

    def _lines(self, end: End) -> list[str]:
        taken = [self._taken(choice) for choice in end.choices]
        return [*([f"if {', and '.join(taken)}:"] if taken else []), *end.lines]

    def _in_words(self) -> str:
        if self.outcome == "ok":
            return "every rank ends in every order"
        if self.outcome == "failed":
            return "not every rank ends"
        return "not exhausted: nothing found so far"


_NAMED = {
    "deadlock": "a deadlock",
    "mismatch": "operations that do not go together",
    "left": "a rank that waits for one that has ended",
}
