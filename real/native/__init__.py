"""PyTorch's compiled engine in worker processes whose network is a coordinator elsewhere."""
