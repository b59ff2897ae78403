"""The wheels that travel to a GPU are all that squall needs there."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from squall.properties.support.paths import ROOT

#: what the machine has itself, and what only squall timeline -o X.parquet imports
_NOT_IN_THE_BUNDLE = {"torch", "pyarrow"}
_PYTHON = {
    "python_version": "3.12",
    "python_full_version": "3.12.0",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "extra": "",
}


def _needed() -> set[str]:
    """What squall depends on for Python 3.12, directly or not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [Requirement(text) for text in project["dependencies"]]
    found: set[str] = set()
    for requirement in asked:  # grows while it is walked
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate(_PYTHON):
            continue
        if name in found or name in _NOT_IN_THE_BUNDLE:
            continue
        found.add(name)
        try:
            asked += map(Requirement, requires(name) or ())
        except PackageNotFoundError:  # for another Python than this one
            continue
    return found


def test_the_wheels_for_a_gpu_cover_the_dependencies() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    wheels = re.search(r"^GPU_WHEELS :=(.*)$", text, re.MULTILINE)
    assert wheels is not None
    bundled = set(map(canonicalize_name, wheels[1].split()))
    assert len(bundled) > 20
    assert sorted(_needed() - bundled) == []
