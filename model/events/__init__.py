"""A run as its events tell it: passes, references, who waits for whom, what faults did."""
