"""Defects of PyTorch, a folder each, and the table of them (docs/findings.md).

A folder ``NAME/`` (lower case, hyphens) holds

``finding.toml``
    the fields of :class:`squall.properties.findings.finding.Facts`: how bad it is, what PyTorch's own words
    say of it
``README.md``
    its page: a title; what happens, ``## On stock PyTorch``; ``## Cause``, with links to lines of PyTorch's
    sources at a commit; ``## What would mend it``; and, if need be, ``## Reports`` and ``## In the port``.
    The links to the files below and the lines that scripts printed are put in by ``page``
``stock.py``
    5 to 40 lines of plain PyTorch with real processes, which prints one line ``BUG …`` or ``OK …``
    and ends by itself
``control.py``
    the same computation in one process with plain autograd, where there is such a thing
``scenario.json``
    the same under squall
``issue/``
    what a report to PyTorch has besides (:mod:`squall.properties.findings.issue`); not all findings have it

    squall findings issue NAME                                    prints such a report
    python -m squall.properties.findings page                     writes docs/findings.md and the pages
    python -m squall.properties.findings run --torch 2.15.0       (make findings TORCH=2.15.0)
"""
