"""What must be true, written independently of the system under test."""
