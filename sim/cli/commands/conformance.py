"""``squall conformance``: PyTorch's own tests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squall.sim.cli.engine import ready
from squall.sim.cli.exits import INTERRUPTED, exit_code
from squall.sim.cli.options import AllowUnchecked, Engine, Json, OnDevice, OneJobACore
from squall.sim.cli.parsers import device_of
from squall.sim.cli.with_tests import part

RANK = 20
EPILOG = """\
[bold]Suites[/bold]

dist_autograd, dist_optimizer, faulty_agent, examples, rpc, tensorpipe_rpc

With --engine torch: groups, too

With --device cuda or stand-in: cuda_dist_autograd, cuda_rpc

[bold]Examples[/bold]

squall conformance

squall conformance dist_autograd -k nested --jobs 1

squall conformance -k RpcTest.test_add --json

squall conformance groups --engine torch     (of process groups: DistributedTest)

squall conformance --tests ~/pytorch/test/distributed/tensor --engine torch

squall conformance --device stand-in     (the tests of CUDA, on any machine)
"""


def conformance(
    suites: Annotated[
        list[str] | None,
        typer.Argument(metavar="SUITE", help="Suites to run; all of them if none is named."),
    ] = None,
    pattern: Annotated[
        str, typer.Option("-k", metavar="PATTERN", help="Only tests with this in their name.")
    ] = "",
    checkout: Annotated[
        Path | None,
        typer.Option(
            "--tests",
            metavar="DIR",
            help="A folder of test/distributed/ of a checkout of PyTorch, or a file of it, instead: each test "
            "that starts a process a rank; suites are its files (engine torch).",
        ),
    ] = None,
    engine: Engine = "port",
    device: OnDevice = "cpu",
    jobs: OneJobACore = None,
    allow_unchecked: AllowUnchecked = False,
    json: Json = False,
) -> None:
    """Run PyTorch's own tests of RPC, distributed autograd and process groups, unmodified, in the simulator.

    The lists of them are in a checkout of squall alone.
    """
    device_of(engine, device)
    command = part("squall.properties.conformance", "command")
    tests = command.collected(suites or [], pattern, device, engine, checkout)
    ready(engine)
    outcome = command.played(tests, engine, jobs, json)
    if outcome.interrupted:
        raise typer.Exit(INTERRUPTED)
    unchecked = outcome.unchecked
    raise typer.Exit(exit_code(good=outcome.ok, unchecked=unchecked, allowed=allow_unchecked))
