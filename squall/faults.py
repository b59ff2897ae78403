"""The public names of :mod:`squall.sim.library.faults`, which says what they are."""

from squall.sim.library.faults import *  # noqa: F403
from squall.sim.library.faults import __all__ as __all__
from squall.sim.library.faults import __doc__ as __doc__
