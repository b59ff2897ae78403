"""The kinds of operations, near relatives in one module each; found by model/program/operations.py."""
