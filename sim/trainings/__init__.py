"""Random trainings over process groups, as data: drawn, rendered as scripts, and made smaller."""
