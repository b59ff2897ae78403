"""Programs on a simulated cluster, through the public API."""
