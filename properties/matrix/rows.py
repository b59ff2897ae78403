"""The rows of the matrix: what differs in each from an ordinary run."""

from __future__ import annotations

from dataclasses import dataclass, field

#: what the first row runs with, and every other unless it says otherwise
PYTHON, TORCH = "3.11", "2.13.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row.

    ``variables`` of the environment. ``elsewhere``: from a copy of the repository in another
    folder, whose name has a space. ``another_user``: as the user ``nobody``, with an empty home.
    """

    name: str
    what: str
    python: str = PYTHON
    torch: str = TORCH
    variables: dict[str, str] = field(default_factory=dict)
    elsewhere: bool = False
    another_user: bool = False


def _variables(name: str, **variables: str) -> Row:
    what = ", ".join(f"`{key}={value}`" for key, value in variables.items())
    return Row(name=name, what=what, variables=variables)


REFERENCE = Row(name="reference", what="nothing set")

ROWS = (
    REFERENCE,
    _variables("no-vectors", ATEN_CPU_CAPABILITY="default"),
    _variables("avx2", ATEN_CPU_CAPABILITY="avx2"),
    _variables("one-thread", OMP_NUM_THREADS="1"),
    _variables("two-threads", OMP_NUM_THREADS="2"),
    _variables("mkl", MKL_CBWR="COMPATIBLE"),
    _variables("locale", LC_ALL="C", PYTHONUTF8="0", TZ="Asia/Kathmandu"),
    Row(name="folder", what="in another folder", elsewhere=True),
    Row(name="user", what="as another user", another_user=True),
    *(
        Row(name=f"python-{python}-torch-{torch}", what="", python=python, torch=torch)
        for python in ("3.11", "3.12", "3.13")
        for torch in ("2.11.0", "2.13.0", "2.15.0")
        if (python, torch) != (PYTHON, TORCH)
    ),
)
BY_NAME = {row.name: row for row in ROWS}
