"""Planted bugs, and campaigns against them."""
