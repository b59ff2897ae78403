"""PyTorch's own tests of RPC, distributed autograd and process groups, in the simulator."""
