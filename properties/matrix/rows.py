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
    python: str = PYTHON
    torch: str = TORCH
    variables: dict[str, str] = field(default_factory=dict)
    elsewhere: bool = False
    another_user: bool = False

    @property
    def what(self) -> str:
        """Its conditions in words."""
        pinned = (self.python, self.torch) == (PYTHON, TORCH)
        words = [] if pinned else [f"Python {self.python}, torch {self.torch}"]
        words += ["in another folder"] * self.elsewhere + ["as another user"] * self.another_user
        words += [f"`{key}={value}`" for key, value in self.variables.items()]
        return ", ".join(words) or "nothing set"


REFERENCE = Row(name="reference")

#: Conditions that must not matter stand together: where a row is as the first one, none of them does.
#: Of versions there is a row for each Python and for each torch.
ROWS = (
    REFERENCE,
    Row(
        name="processor",
        variables={
            "ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "1", "MKL_CBWR": "COMPATIBLE"
        },
    ),
    Row(
        name="elsewhere", elsewhere=True, another_user=True,
        variables={
            "ATEN_CPU_CAPABILITY": "avx2", "OMP_NUM_THREADS": "2",
            "LC_ALL": "C", "PYTHONUTF8": "0", "TZ": "Asia/Kathmandu",
        },
    ),
    Row(name="python-3.12-torch-2.11.0", python="3.12", torch="2.11.0"),
    Row(name="python-3.13-torch-2.15.0", python="3.13", torch="2.15.0"),
)  # fmt: skip
BY_NAME = {row.name: row for row in ROWS}
