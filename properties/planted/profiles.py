"""Profiles around whatever a step does."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 206
MUTANTS = (
    Mutant(
        name="range-of-an-unsent-call-stays-open",
        wrong="the range of a call that could not be sent does not end in the profile",
        place="rpc.calls:_invoke_rpc",
        old="        if profiled is not None:\n            profiled.end()\n",
        new="",
    ),
    Mutant(
        name="profile-without-its-beginning",
        wrong="a profile does not say when it began",
        place="rpc.profiling:LegacyProfiler.mark_start",
        old='self._add("__start_profile", "mark", 0)',
        new="pass",
    ),
    Mutant(
        name="profiled-ranges-of-one-number",
        wrong="ranges of a profile that began as others ended have their numbers",
        place="rpc.profiling:LegacyProfiler._number_of",
        old="self._numbers.setdefault(given, next(self._own_numbers))",
        new="self._numbers.setdefault(given, given[1] % 4)",
    ),
    Mutant(
        name="profiled-call-not-taken-back",
        wrong="a profiled call that could not be sent leaves its send function in its context",
        place="rpc.discard:take_back",
        old="    while message.type in _WRAPPERS:\n",
        new="    while message.type in _AUTOGRAD:\n",
    ),
    Mutant(
        name="profiled-reply-keeps-its-references",
        wrong="the references in the reply to a profiled call that is over are kept",
        place="rpc.discard:pickled_part",
        old="    while message.type in _WRAPPERS:\n",
        new="    while message.type in _AUTOGRAD:\n",
        needs="LX",
    ),
    Mutant(
        name="failed-pass-has-no-end-in-a-profile",
        origin="blind",
        wrong="the range of a pass in a profile does not end if the pass fails",
        place="autograd.profiled_pass:pass_range",
        old="    try:\n        yield\n    finally:\n        profiler.pop(handle)\n",
        new="    yield\n    profiler.pop(handle)\n",
    ),
)
