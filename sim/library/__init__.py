"""Squall in other people's code: the public interface, as functions and objects, and the plugin for pytest.

What stands in ``squall/__init__.py`` under :data:`squall.__all__` is public; everything else may
change.
"""
