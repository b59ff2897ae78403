"""Builds the agent on first use, and keeps it for as long as nothing that it depends on changes.

One library for each version of torch and of Python, compiler, flags and state of the sources, in
``$SQUALL_CACHE`` or ``~/.cache/squall``. A compiler is all that is needed besides torch itself.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ("agent.cpp", "group.cpp", "link.cpp")
HEADERS = ("about.h", "digest.h", "group.h", "link.h", "quiet.h", "retries.h", "shared.h")
NAME = "squall_agent"
FLAGS = ("-O1", "-g0", "-std=c++20", "-fPIC", "-fvisibility=hidden")


class Unavailable(RuntimeError):  # noqa: N818 - it says what there is not
    """The engine cannot be had on this machine; ``str()`` says what to do about it."""


def compiler() -> str:
    """The C++ compiler: ``$CXX``, or what is found. Raises :class:`Unavailable`."""
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else ["g++", "c++", "clang++"]:
        found = shutil.which(name)
        if found is not None:
            return found
    looked = f"CXX={wanted}" if wanted else "g++, c++ or clang++"
    raise Unavailable(
        f"the engine torch needs a C++ compiler on its first use, and there is no {looked} here; "
        "install one (Debian, Ubuntu: apt-get install g++) or name one in CXX"
    )


def directory() -> Path:
    """Where what is built is kept."""
    configured = os.environ.get("SQUALL_CACHE")
    if configured:
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "squall"


def torch_version() -> str:
    """``torch.__version__``, read from its file: what there is need not wait for torch to be imported."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.submodule_search_locations, "there is no torch"
    return str(runpy.run_path(f"{spec.submodule_search_locations[0]}/version.py")["__version__"])


def library(on_build: Callable[[str], object] | None = None) -> Path:
    """The path of the built extension module, built now if it is not there.

    ``on_build`` is told, in one line, that something is being built; a terminal if there is none. Raises :class:`Unavailable`
    if there is no compiler or it fails.
    """
    if not os.path.exists("/proc/thread-self/syscall"):
        raise Unavailable(
            "the engine torch needs a Linux that tells what a thread waits for "
            "(/proc/thread-self/syscall), and this machine has none"
        )
    version = torch_version()
    folder = directory() / f"torch-{version}" / _key(version, os.environ.get("CXX", ""))
    built = folder / f"{NAME}{sysconfig.get_config_var('EXT_SUFFIX')}"
    if built.exists():
        return built
    import torch

    if not torch.distributed.is_available() or not _has_rpc():
        raise Unavailable("this build of PyTorch has no torch.distributed.rpc")
    cxx = compiler()
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # others may be building the same
        if not built.exists():
            (on_build or _tell)(f"building the agent for torch {version} (once, about 30 s)")
            _build(cxx, folder, built)
    return built


@functools.cache
def _key(version: str, cxx: str) -> str:
    """What it is built from, as a name; not which compiler built it: what is there works without any."""
    key = hashlib.blake2b(digest_size=8)
    for part in (version, sys.version, *FLAGS, cxx):
        key.update(part.encode() + b"\0")
    for name in (*SOURCES, *HEADERS):
        key.update((HERE / name).read_bytes())
    return key.hexdigest()


def _tell(text: str) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"squall: {text}", file=sys.stderr, flush=True)


def _has_rpc() -> bool:
    try:
        import torch._C._distributed_rpc  # noqa: F401
    except ImportError:
        return False
    return True


def _build(cxx: str, folder: Path, built: Path) -> None:
    import torch

    root = Path(torch.__file__).parent
    include = [root / "include", root / "include/torch/csrc/api/include"]
    command = [
        cxx,
        *FLAGS,
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        f"-DTORCH_EXTENSION_NAME={NAME}",
        "-DTORCH_API_INCLUDE_EXTENSION_H",
    ]
    for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):
        value = getattr(torch._C, f"_PYBIND11_{name}", None)
        if value is not None:  # what torch's own bindings were built with, where it tells
            command.append(f'-DPYBIND11_{name}="{value}"')
    for path in (*include, Path(sysconfig.get_paths()["include"])):
        command += ["-isystem", str(path)]
    unfinished = folder / f"{NAME}.{os.getpid()}.so"
    command += [str(HERE / name) for name in SOURCES]
    command += ["-shared", f"-L{root / 'lib'}", f"-Wl,-rpath,{root / 'lib'}"]
    command += ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python", "-o", str(unfinished)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        log = folder / "build.log"
        log.write_text(" ".join(command) + "\n\n" + done.stderr, encoding="utf-8")
        first = next((line for line in done.stderr.splitlines() if "error" in line), "no reason")
        raise Unavailable(f"{cxx} could not build the agent: {first.strip()} (all of it: {log})")
    unfinished.rename(built)
