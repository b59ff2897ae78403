"""Backward passes over the workers of a group as a transition system of their own."""
