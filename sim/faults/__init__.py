"""What is to go wrong in a run: fault plans, how they are drawn, and how they take effect."""
