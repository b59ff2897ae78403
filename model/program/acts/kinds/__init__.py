"""The kinds of acts, a module for each family."""
