"""A device of our own for the CPU, whose streams run late and out of order under a seed.

:mod:`.streams` (streams, events, what runs when, and what is told of it), :mod:`.tensors` (tensors
that live on the device, and the kernels that operators become), :mod:`.backend` (the device as
``torch.get_device_module("standin")`` has it).
"""

#: what the device is called in scenarios and on the command line
STAND_IN_NAME = "stand-in"
