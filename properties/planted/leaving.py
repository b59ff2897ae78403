"""The end of a group while calls that nobody waits for are under way."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 209
MUTANTS = (
    Mutant(
        name="two-quiet-rounds-whatever-lies-between",
        wrong="a group ends after two rounds that find no call, though calls were made between them",
        place="rpc.in_flight:GroupJoin.wait",
        old="elif made == before:",
        new="elif before is not None:",
    ),
    Mutant(
        name="calls-of-functions-not-among-those-made",
        wrong="calls that a worker makes while it serves one are not among those ever made",
        place="rpc.call_table:CallTable.begin",
        old="        in_flight.ever_made += 1\n",
        new="        in_flight.ever_made += not in_flight.served\n",
    ),
    Mutant(
        name="each-compares-its-own-count",
        wrong="a worker leaves when itself made no call between two rounds, whatever others did",
        place="rpc.in_flight:GroupJoin.wait",
        old='made = self._store.get(f"join/{round}/made")',
        new="made = ever_made",
    ),
)
