"""Everything that is run on a GPU, within ten minutes, into one JSON and one text report.

``python -m benchmarks.gpu [--stand-in] [--seconds S] [--out DIRECTORY]``. Exit code 2 where there is
no GPU, 1 if something was found, 0 if all is well.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import measure, precision, spin
from squall.properties.planted.devices import MUTANTS
from squall.sim.names import Device
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings, draw
from squall.sim.search.judge import judge
from squall.sim.world.device import seen_as_a_gpu
from squall.sim.world.stand_in.backend import begin_run
from squall.sim.world.stand_in.streams import STAND_IN

#: seeds that each planted bug is tried on
_TRIED = 40


def fuzz(device: Device, seconds: float) -> dict[str, Any]:
    """Scenarios from seed 0 on, for so many seconds."""
    began, seed, failed = time.perf_counter(), 0, []
    with campaign_settings(device), seen_as_a_gpu():
        while time.perf_counter() - began < seconds:
            verdict = judge(seed, Settings(device=device))
            if not verdict.ok:
                failed.append({"seed": seed, "found": str(verdict.violations[0])})
            seed += 1
    took = time.perf_counter() - began
    return {"scenarios": seed, "per_second": seed / took, "failed": failed}


def planted(device: Device) -> dict[str, Any]:
    """Which planted bugs are noticed, by which property, and at which seed."""
    found: dict[str, Any] = {}
    with campaign_settings(device), seen_as_a_gpu():
        settings = Settings(device=device)
        good = [s for s in range(_TRIED) if judge(draw(s, settings)).ok]
        for mutant in MUTANTS:
            found[mutant.name] = (
                "not noticed" if mutant.expected else f"not expected: {mutant.unseen}"
            )
            for seed in good:
                with mutant.apply():
                    verdict = judge(draw(seed, settings))
                if not verdict.ok:
                    found[mutant.name] = {"seed": seed, "by": verdict.violations[0].property}
                    break
    return found


def conformance(device: Device) -> dict[str, Any]:
    """PyTorch's own tests of CUDA; on a machine with one GPU those that need one."""
    command = [sys.executable, "-m", "squall", "conformance", "--device", device, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    try:
        said = json.loads(done.stdout)
    except json.JSONDecodeError:
        said = {"stderr": done.stderr[-2000:]}
    return {"exit_code": done.returncode, **said}


def measurements(device: Device) -> dict[str, Any]:
    name = "cuda" if device == "cuda" else "standin"
    large = {"batch": 64, "side": 224, "repeats": 5}
    small = {"batch": 2, "side": 32, "repeats": 1}
    with campaign_settings(device):
        found: dict[str, Any] = {"chain": measure.chain(name, device, 5 if device == "cuda" else 1)}
        found["ulps"] = precision.distances(name, device)
        for dtype in (torch.float32, torch.bfloat16):
            size = large if device == "cuda" else small
            found[f"resnet50 {dtype}"] = measure.split_step(name, device, dtype, **size)
    return found


def _spin(device: Device) -> dict[str, Any]:
    if device == "cuda":
        return dict(spin.demonstration("cuda"))
    with campaign_settings(device):
        begin_run(0, 1, lambda: 0)
        STAND_IN.lag()
        try:
            return dict(spin.demonstration("standin"))
        finally:
            STAND_IN.end()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument(
        "--stand-in", action="store_true", help="run what a machine without GPU can"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to fuzz")
    parser.add_argument("--out", type=Path, default=Path("build/gpu"), help="where reports go")
    asked = parser.parse_args()
    device: Device = "stand-in" if asked.stand_in else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        print(
            "PyTorch finds no CUDA device on this machine: make gpu ARGS=--stand-in runs the rest."
        )
        return 2
    report: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name() if device == "cuda" else "stand-in",
        "torch": torch.__version__,
        "python": sys.version.split()[0],
    }
    parts = {
        "spin kernel": lambda: _spin(device),
        "fuzz": lambda: fuzz(device, asked.seconds),
        "planted bugs": lambda: planted(device),
        "measurements": lambda: measurements(device),
        "conformance": lambda: conformance(device),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    broken = False
    for name, part in parts.items():
        print(name, "…", flush=True)
        try:
            report[name] = part()
        except Exception as error:  # the other parts are worth having all the same
            report[name] = {"error": f"{type(error).__name__}: {error}"}
            broken = True
        text = json.dumps(report, indent=2, default=str)
        (asked.out / "report.json").write_text(text + "\n", encoding="utf-8")
    lines = [f"{key}: {json.dumps(value, default=str)}" for key, value in report.items()]
    (asked.out / "report.txt").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    print((asked.out / "report.txt").read_text(encoding="utf-8"))
    return 1 if broken or report["fuzz"]["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
