"""Tests and Hypothesis strategies."""
