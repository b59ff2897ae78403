"""Deterministic simulation and verification of distributed autograd.

``squall.real`` is the system under test, ``squall.model`` what must be true, ``squall.sim`` the
world that it runs in, and ``squall.properties`` what tests share. Importing this imports no torch.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("squall")
except PackageNotFoundError:  # a checkout that nobody has installed
    __version__ = "0"

__all__ = ["__version__"]
