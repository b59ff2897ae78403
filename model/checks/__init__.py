"""What must hold for every run: one property a module."""
