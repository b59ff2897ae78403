"""What ``pip install squall`` brings: the package alone, and commands that work from any folder."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from squall.properties.sim.pictures.test_export import unpacked
from squall.properties.support.console import play
from squall.properties.support.markdown import links
from squall.properties.support.paths import DOCS, ROOT
from squall.sim.cli.starting import NEVER, PROGRESS

TIMEOUT_S = 240

#: what a build reads, besides what is listed in pyproject.toml as a file
_SOURCES = ("squall", "real", "model", "sim", "properties", "examples")
_FILES = ("pyproject.toml", "LICENSE")
#: of the folder of the tests, what others may use
_SHARED = {"squall/properties/__init__.py", "squall/properties/strategies.py"}
#: says that what is public has types
_TYPED = {"squall/py.typed"}

TRAINING = """
import os
import model, properties, real, sim.layers
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

def run(rank, world_size):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        with dist_autograd.context() as context_id:
            x = torch.ones(3, requires_grad=True)
            doubled = rpc.rpc_sync("worker1", model.double, args=(x,))
            net = rpc.remote("worker1", sim.layers.Net, args=(properties.WIDTH,))
            y = net.rpc_sync().forward(doubled)
            dist_autograd.backward(context_id, [y.sum()])
            print(real.NAME, dist_autograd.get_gradients(context_id)[x].tolist())
    rpc.shutdown()

if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2)
"""
#: modules of a user, named as the folders of this repository are; the script needs each
BESIDE = {
    "model.py": "def double(x):\n    return x * 2\n",
    "real.py": "NAME = 'real of the user'\n",
    "properties.py": "WIDTH = 3\n",
    "sim/__init__.py": "",
    "sim/layers.py": (
        "class Net:\n"
        "    def __init__(self, width):\n        self.width = width\n"
        "    def forward(self, x):\n        return x * self.width\n"
    ),
}

#: somebody's tests, beside those modules
TESTS = """
import torch
import torch.distributed.rpc as rpc

import model, real, sim.layers
import squall

@squall.test(workers=2, seeds=10, faults="mild", join="worker{rank}")
def test_a_call(rank):
    assert real.NAME == "real of the user"
    net = rpc.remote("worker1", sim.layers.Net, args=(3,))
    doubled = rpc.rpc_sync("worker1", model.double, args=(torch.ones(2),))
    assert net.rpc_sync().forward(doubled).tolist() == [6, 6]

@squall.test(workers=2, seeds=2)
def test_unequal(rank):
    assert rank == 0

def test_by_hand(squall_cluster):
    def step(rank):
        return rpc.rpc_sync("worker0", model.double, args=(rank,))
    assert squall_cluster.run(step, workers=2).results == [0, 2]
"""
#: what mypy says of what is public
TYPED = """
import squall

run = squall.run(lambda rank: rank, workers=2)
reveal_type(run)
reveal_type(squall.fuzz(seeds=1).ok)
squall.run(3)
"""


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel and what it depends on, and nothing of this checkout."""

    python: Path
    squall: Path
    wheel: Path
    #: where commands run
    folder: Path

    def run(self, *words: str | Path, code: int = 0) -> str:
        """What the command prints, from a folder that has nothing to do with the repository."""
        store = str(self.folder / "store")
        environment = {**self._environment(), "COLUMNS": "100", "SQUALL_STORE": store}
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def typed(self, words: list[str], folder: Path) -> tuple[int, str]:
        """The exit code of a command that is typed in a folder, and all that a terminal shows."""
        programs = {
            "squall": [self.squall],
            "python": [self.python],
            "pytest": [self.python, "-m", "pytest"],
        }
        done = subprocess.run(
            [*programs.get(words[0], words[:1]), *words[1:]],
            cwd=folder,
            env={**self._environment(), "COLUMNS": "80", PROGRESS: NEVER},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
        )
        return done.returncode, done.stdout

    def report(self, *words: str | Path) -> dict[str, object]:
        """The JSON object of a command."""
        said: dict[str, object] = json.loads(self.run(self.squall, *words, "--json"))
        return said

    def _environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return {**inherited, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder of a virtual environment with the wheel installed, built once for all tests."""
    shared = tmp_path_factory.getbasetemp()
    if worker_id != "master":  # a process of pytest-xdist: its siblings use the same one
        shared = shared.parent
    folder = shared / "wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            _build(folder)
            (folder / "ready").touch()
    return folder


def _build(folder: Path) -> None:
    sources = folder / "sources"
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for name in _SOURCES:
        shutil.copytree(ROOT / name, sources / name, symlinks=True, ignore=ignored)
    for name in _FILES:
        shutil.copy(ROOT / name, sources)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    _call(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, sources)
    venv.create(folder / "env", with_pip=False, symlinks=True)
    python = folder / "env" / "bin" / "python"
    (wheel,) = folder.glob("*.whl")
    _call(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    # The dependencies, without what makes this checkout importable: a folder that a .pth file
    # names is searched for modules, and its own .pth files are not read.
    packages = sysconfig.get_path("purelib", vars={"base": str(folder / "env")})
    dependencies = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    Path(packages, "dependencies.pth").write_text("\n".join(sorted(dependencies)), encoding="utf-8")


def _call(*words: str | Path) -> None:
    # a checkout that the environment makes importable is no installed squall
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, env=outside, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.fixture
def installed(environment: Path, tmp_path: Path) -> Installed:
    """The commands, to be run in a folder with modules that are named as the folders of the repository."""
    for name, source in BESIDE.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source, encoding="utf-8")
    scripts = environment / "env" / "bin"
    (wheel,) = environment.glob("*.whl")
    return Installed(scripts / "python", scripts / "squall", wheel, tmp_path)


def test_the_wheel_holds_the_package_alone(installed: Installed) -> None:
    wheel = zipfile.ZipFile(installed.wheel)
    names = {name for name in wheel.namelist() if "dist-info" not in name}
    assert {PurePosixPath(name).parts[0] for name in names} == {"squall"}
    wanted = {f"squall/{path.name}" for path in (ROOT / "squall").glob("*.py")}
    for folder in ("real", "model", "sim"):
        wanted |= {
            f"squall/{path.relative_to(ROOT).as_posix()}"
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
    wanted |= {f"squall/examples/{file.name}" for file in (ROOT / "examples").glob("*.py")}
    assert names == wanted | _SHARED | _TYPED
    (metadata,) = (wheel.read(name) for name in wheel.namelist() if name.endswith("/METADATA"))
    assert links(metadata.decode()) == [], "there is no address that a link could lead to"


def test_nothing_but_squall_becomes_importable(installed: Installed) -> None:
    code = (
        "import importlib.util, json, squall, sys\n"
        "names = ['real', 'model', 'sim', 'properties', 'benchmarks', 'tests']\n"
        "found = [name for name in names if importlib.util.find_spec(name)]\n"
        "print(json.dumps([squall.__file__, squall.__version__, 'torch' in sys.modules, found]))\n"
    )
    file, version, torch_too, found = json.loads(installed.run(installed.python, "-P", "-c", code))
    assert installed.python.parents[1] in Path(file).parents
    assert installed.wheel.name.startswith(f"squall-{version}-")
    assert not torch_too
    assert found == []


def test_the_command_and_the_module_are_one(installed: Installed) -> None:
    help_text = installed.run(installed.squall, "--help")
    assert "conformance" in help_text
    assert installed.run(installed.python, "-m", "squall", "--help") == help_text


@pytest.mark.usefixtures("compiled_engine")
@pytest.mark.parametrize("engine", ["port", "torch"])
def test_a_script_with_modules_of_our_names_beside_it(installed: Installed, engine: str) -> None:
    script = installed.folder / "train.py"
    script.write_text(TRAINING, encoding="utf-8")
    words = ("run", script, "--seed", "5", "--engine", engine)
    assert "real of the user [6.0, 6.0, 6.0]" in installed.run(installed.squall, *words)
    report = installed.report(*words)
    assert (report["outcome"], report["gradients_equal"]) == ("ok", True)


def test_a_script_becomes_a_timeline(installed: Installed) -> None:
    page = installed.folder / "page.html"
    installed.run(installed.squall, "examples", "rref_sharing")
    installed.run(installed.squall, "timeline", "rref_sharing.py", "-o", page)
    assert "worker1" in json.dumps(unpacked(page.read_text(encoding="utf-8"), "core"))


def test_a_campaign(installed: Installed) -> None:
    report = installed.report("fuzz", "--seeds", "0:20", "--jobs", "2")
    assert (report["outcome"], report["scenarios"]) == ("ok", 20)


def test_a_campaign_that_is_kept(installed: Installed) -> None:
    report = installed.report("campaign", "--seeds", "0:4", "--lease", "2", "--store", "db")
    assert (report["outcome"], report["judged"]) == ("ok", 4)
    exported = installed.report("campaign", "--export", "out", "--store", "db")
    assert (exported["leases"], exported["failures"]) == (2, 0)


@pytest.mark.usefixtures("compiled_engine")
def test_a_campaign_on_the_compiled_engine(installed: Installed) -> None:
    # seeds that meet no defect of PyTorch
    report = installed.report("fuzz", "--seeds", "8:11", "--engine", "torch")
    assert (report["outcome"], report["scenarios"]) == ("ok", 3)


def test_planted_bugs_and_pytorchs_tests_are_with_the_tests(installed: Installed) -> None:
    for command in ("mutants", "conformance", "findings"):
        installed.run(installed.squall, command, code=2)
    report = installed.report("mutants", "--drawn", "1", "--seconds", "1", "--allow-unchecked")
    assert len(report["mutants"]) == 1  # type: ignore[arg-type]


@pytest.mark.deep("the commands of the tutorial, each in an interpreter that imports torch")
def test_the_tutorial_in_an_empty_folder(installed: Installed) -> None:
    folder = installed.folder / "empty"
    folder.mkdir()
    code, said = installed.typed(["squall", "examples", "all", "--into", "examples"], folder)
    assert code == 0, said
    wrong = play(DOCS / "tutorial.md", folder, installed.typed)
    assert not wrong, "\n".join(wrong)


def test_somebodys_tests_need_no_configuration(installed: Installed) -> None:
    (installed.folder / "test_theirs.py").write_text(TESTS, encoding="utf-8")
    words = (installed.python, "-m", "pytest", "-v", "-p", "no:cacheprovider", "test_theirs.py")
    said = installed.run(*words, code=1)
    assert "test_theirs.py::test_a_call PASSED (10 runs)" in said
    assert "test_theirs.py::test_by_hand PASSED" in said
    assert "rank 1: AssertionError: assert 1 == 0" in said
    assert "1 failed, 2 passed" in said


@pytest.mark.deep("mypy reads all that is public")
def test_the_public_names_have_types(installed: Installed) -> None:
    (installed.folder / "typed.py").write_text(TYPED, encoding="utf-8")
    said = installed.run(installed.python, "-m", "mypy", "--no-error-summary", "typed.py", code=1)
    assert 'Revealed type is "squall.sim.library.run.Run"' in said
    assert 'Revealed type is "builtins.bool' in said or 'Revealed type is "bool"' in said
    assert 'typed.py:7: error: Argument 1 to "run"' in said
