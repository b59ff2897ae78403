"""Scripts that end without an error and are wrong, or on whose account an engine is."""
