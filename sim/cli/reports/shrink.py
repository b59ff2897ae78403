"""What ``squall shrink`` says of what is left, for people and for machines."""

from __future__ import annotations

import json
import shlex

from rich.console import Console
from rich.text import Text

from squall.model.events.names import in_words, number_of
from squall.model.program.program import Program, source
from squall.sim.cli.panels import print_panel, summary_table, verdict
from squall.sim.search.shrink.cost import deviations, extent
from squall.sim.search.shrink.shrinker import Shrinker
from squall.sim.search.why.told import Why, lines


def shrink_json(shrinker: Shrinker, file: str, why: Why | None = None) -> str:
    """The object of ``squall shrink --json``; its keys are in docs/json.md."""
    target, best = shrinker.target, shrinker.best
    assert target is not None
    return json.dumps(
        {
            "outcome": "interrupted" if shrinker.interrupted else "ok",
            "before": extent(shrinker.first)._asdict(),
            "after": extent(best)._asdict(),
            "file": file,
            "property": target.property,
            "what": target.what,
            "deviations": deviations(best),
            "digest": best.expected.digest,
            "mutant": best.expected.mutant,
            "tried": shrinker.tried,
            "out_of_time": shrinker.out_of_time,
            "replay": shlex.join(["squall", "replay", file]),
            "why": None if why is None else why.to_json(),
        },
        allow_nan=False,
    )


def print_shrunk(shrinker: Shrinker, file: str, console: Console, why: Why | None = None) -> None:
    """Before, after, what is left, and what decided that it fails."""
    target, best = shrinker.target, shrinker.best
    assert target is not None
    table = summary_table()
    table.add_row("breaks", Text(in_words(f"{target.property}: {target.what}", {}), style="red"))
    table.add_row("before", str(extent(shrinker.first)))
    table.add_row("after", verdict(str(extent(best)), good=True))
    table.add_row("run", deviations(best))
    if best.expected.mutant is not None:
        table.add_row("planted", f"mutant {best.expected.mutant}")
    if best.program is not None:
        for line in program_lines(best.program):
            table.add_row("", Text(line))
    table.add_row("tried", number_of(shrinker.tried, "run"))
    if shrinker.out_of_time or shrinker.interrupted:
        over = "interrupted" if shrinker.interrupted else "the time was over"
        table.add_row("", Text(f"{over}: the best so far", style="yellow"))
    print_panel(console, table, "squall shrink")
    if why is not None:
        console.print(Text("\n".join(["", *lines(why), ""])), soft_wrap=True)
    console.print(Text(f"again: squall replay {file}", style="dim"), soft_wrap=True)


def program_lines(program: Program) -> list[str]:
    """The program, a line for each part."""
    lines = [f"leaves on workers {', '.join(str(leaf.owner) for leaf in program.leaves)}"]
    for t, s, step in program.steps:
        where = program.trainers[t].worker
        lines.append(f"trainers[{t}] on worker {where}, steps[{s}]:")
        for index, op in enumerate(step.ops):
            names = []
            for input in op.inputs:
                is_leaf, number = source(program, index, input)
                names.append(f"{'leaf' if is_leaf else 'op'} {number}")
            via = "".join(f" via {worker}" for worker in op.via)
            call = "" if op.call == "local" else f" by {op.call} on worker {op.worker}{via}"
            lines.append(f"  op {index}: {op.kind}({', '.join(names)}){call}")
        for backward in step.backwards:
            roots = ", ".join(str(len(step.ops) - back) for back in backward.roots)
            lines.append(f"  backward from op {roots}")
    return lines
