"""Libraries that use ``torch.distributed``, from their wheels, in the simulation and outside.

``make libraries`` runs a small script with each of them, ``scripts/with_NAME.py``: as two real processes under
torchrun, and on both engines. What is printed has to be the same.
"""
