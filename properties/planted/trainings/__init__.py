"""Planted bugs of process groups: in trainings, in PyTorch's Python layers, and in what carries them here."""
