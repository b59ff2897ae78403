"""Where a second run of the same scenario parts from the first."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from squall.sim.world.watch import Divergence, stack_lines

#: frames of a stack, the innermost, that are printed
_STACK_SHOWN = 8


def print_second_run(divergence: Divergence | None, console: Console) -> None:
    """What a second run came to."""
    if divergence is None:
        console.print("a second run was the same to the last event and draw")
    else:
        print_divergence(divergence, console)


def print_divergence(divergence: Divergence, console: Console) -> None:
    """What the two runs did where they part, and where in the code."""
    console.print(Text(f"not deterministic: {divergence}", style="bold red"))
    for name, step in (("first", divergence.one), ("second", divergence.other)):
        console.print(f"the {name} run was at:")
        for line in stack_lines(step)[-_STACK_SHOWN:] or ["its end"]:
            console.print(f"  {line}", markup=False)
