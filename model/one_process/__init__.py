"""What must come out: a program, or a whole cluster, in one process with plain torch.autograd."""
