"""Two engines on one scenario, and the differences that are known."""
