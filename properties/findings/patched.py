"""``python patched.py PATCH SCRIPT``: run a script on PyTorch as a patch would have it.

The patch changes Python files of PyTorch. Nothing that is installed is touched: a file is read with its
changes when it is imported. Processes that the script forks have them too. Of the standard library alone.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory


def changed(patch: Path) -> dict[str, str]:
    """The text that each file has with the patch, by the path of the installed one.

    Raises:
        ValueError: it does not fit to what is installed
    """
    found = find_spec("torch")
    assert found is not None and found.origin is not None
    installed = Path(found.origin).parents[1]
    names = re.findall(r"^\+\+\+ b/(\S+)$", patch.read_text("utf-8"), re.M)
    with TemporaryDirectory() as folder:
        for name in names:
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(installed / name, Path(folder) / name)
        done = subprocess.run(
            ["git", "apply", str(patch.resolve())],
            cwd=folder,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(Path(folder).parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ValueError(f"{patch} does not fit to {installed}: {done.stderr.strip()}")
        return {str(installed / name): (Path(folder) / name).read_text("utf-8") for name in names}


def main(patch: Path, script: Path) -> None:
    texts = changed(patch)
    as_installed = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> object:
        if self.path in texts:
            return compile(texts[self.path], self.path, "exec", dont_inherit=True)
        return as_installed(self, fullname)

    SourceFileLoader.get_code = get_code
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
