"""Acts: what a story of kind "acts" does, one after the other and inside each other."""
