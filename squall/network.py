"""The public names of :mod:`squall.sim.library.network`, which says what they are."""

from squall.sim.library.network import *  # noqa: F403
from squall.sim.library.network import __all__ as __all__
from squall.sim.library.network import __doc__ as __doc__
