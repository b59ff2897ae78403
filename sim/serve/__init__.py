"""The local page: kept failures and runs, two side by side."""
