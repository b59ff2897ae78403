"""Public issues of process groups and what is built on them, played again as filed (docs/issues.md).

``scripts/NAME.py``
    a script for ``torchrun``, of at most 50 lines; NAME is the repository and the number, ``pytorch-173608``. It
    begins with the issue and the number of ranks, a title, and what is expected::

        # pytorch/pytorch#173608, 3 ranks
        # new_group(use_local_synchronization=True) hangs among …
        # Expected: ranks 0 and 1 make their group, …

    Rank 0 prints one line ``BUG …`` or ``OK …``
``verdicts.toml``
    what came of each: the fields of :class:`squall.properties.issues.issue.Verdict`
``stock.json``
    the lines that the scripts printed on stock PyTorch, by version

    python -m squall.properties.issues stock [NAME]      runs the scripts on the torch that is installed
    python -m squall.properties.issues page              writes docs/issues.md
"""
