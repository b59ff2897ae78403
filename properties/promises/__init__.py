"""What the documentation and plain Python promise of the public surface, on both engines and on stock PyTorch.

A script here prints a line for each promise: ``NAME: ok``, or ``NAME: not so: …`` (``promise.py``). ``deviations.toml`` names each that
does not hold, and why: the finding, or the sentence that says otherwise. ``surface.toml`` lists every public name of
``torch.distributed.rpc``, ``autograd``, ``nn`` and ``optim`` and where it is met.
"""
