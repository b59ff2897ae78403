"""PyTorch's own tests of RPC and distributed autograd, in the simulator."""
