"""What commands say of what came out: one JSON object for machines, and text for people."""
