"""PyTorch's own compiled engine, a process a worker, on the simulated network."""
