"""Virtual time, tasks, and the network."""
