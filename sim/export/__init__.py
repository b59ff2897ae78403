"""Scenarios as scripts for stock PyTorch."""
