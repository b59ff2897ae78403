"""PyTorch's own tests in the simulator, as items that an editor can run one by one."""
