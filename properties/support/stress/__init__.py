"""Workloads for ThreadRuntime: many threads change what workers share, and gradients must stay
right. ``make stress`` repeats them for a minute; ``properties/real/test_stress.py`` does each once.
"""
