"""A Ray cluster of two machines, as far as the network goes: the second is in a namespace of its own,
behind a cable that can be pulled. Needs root, and a Linux that has network namespaces."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from squall.properties.support.waiting import wait_for

#: Ray's: a machine that does not answer for about three seconds is gone
_SOON = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}
_HERE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
_STORE = ["--object-store-memory", str(80 * 2**20), "--num-cpus", "1", "--block"]


def missing() -> str | None:
    """Why there cannot be two machines here; None if there can be."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "there is no program ip (Debian's package iproute2)"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"no network namespace: {tried.stderr.strip()}"


class TwoMachines:
    """``address``: of Ray's head, which is on the machine that this process is on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f"squall{os.getpid() % 10**6}"
        net = f"198.18.{os.getpid() % 250}"  # kept for tests of networks
        self._ours, self._theirs = f"{net}.1", f"{net}.2"
        self._rays: list[subprocess.Popen[bytes]] = []
        self._port, self._client_port = _free_ports()

    @property
    def address(self) -> str:
        return f"{self._ours}:{self._port}"

    @property
    def client(self) -> str:
        """The same, for who is outside of the cluster."""
        return f"ray://{self._ours}:{self._client_port}"

    @property
    def second(self) -> str:
        """The address of the second machine."""
        return self._theirs

    def start(self) -> None:
        name, cable, end = self._name, f"v{self._name}", f"w{self._name}"
        _ip("netns", "add", name)
        _ip("link", "add", cable, "type", "veth", "peer", "name", end, "netns", name)
        _ip("addr", "add", f"{self._ours}/24", "dev", cable)
        _ip("link", "set", cable, "up")
        for words in (
            ["link", "set", "lo", "up"],
            ["addr", "add", f"{self._theirs}/24", "dev", end],
            ["link", "set", end, "up"],
        ):
            _ip("-n", name, *words)
        head = ["--head", "--port", str(self._port), "--include-dashboard", "false"]
        head += ["--ray-client-server-port", str(self._client_port)]
        self._ray("head", [*head, "--node-ip-address", self._ours])
        self.join()

    def join(self) -> None:
        """The second machine comes into the cluster, also once more."""
        words = ["--address", self.address, "--node-ip-address", self._theirs]
        self._ray("second", words, ["ip", "netns", "exec", self._name])

    def pull(self) -> None:
        _ip("-n", self._name, "link", "set", f"w{self._name}", "down")

    def plug(self) -> None:
        _ip("-n", self._name, "link", "set", f"w{self._name}", "up")

    def stop(self) -> None:
        for ray in reversed(self._rays):
            ray.terminate()
        for ray in self._rays:
            try:
                ray.wait(30)
            except subprocess.TimeoutExpired:
                ray.kill()
                ray.wait()
        left = subprocess.run(["ip", "netns", "pids", self._name], capture_output=True, text=True)
        for pid in left.stdout.split():
            os.kill(int(pid), 9)
        _ip("netns", "del", self._name)

    def _ray(self, name: str, words: list[str], before: list[str] | None = None) -> None:
        """A Ray that has started."""
        told = self._folder / f"{name}-{len(self._rays)}.log"
        ray = [str(Path(sys.executable).with_name("ray")), "start", *words, *_STORE]
        with told.open("wb") as log:
            process = subprocess.Popen(
                [*(before or []), *ray],
                env={**os.environ, **_HERE, **_SOON},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._rays.append(process)
        wait_for(lambda: b"Ray runtime started" in told.read_bytes(), f"a Ray ({told})")


@contextmanager
def two_machines(folder: Path) -> Iterator[TwoMachines]:
    machines = TwoMachines(folder)
    try:
        machines.start()
        yield machines
    finally:
        machines.stop()


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
