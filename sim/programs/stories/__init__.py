"""Short scenes beside the computation of a program, each with a result that is known."""
