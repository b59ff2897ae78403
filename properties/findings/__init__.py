"""Defects of PyTorch, a folder each, and the page that is made of them (docs/findings.md).

A folder ``NAME/`` (lower case, hyphens) holds

``finding.toml``
    what it is: the fields of :class:`squall.properties.findings.finding.Facts`
``finding.md``
    the text, under ``## Stock``, ``## Cause``, ``## Mend`` and, if need be, ``## Port``
``stock.py``
    5 to 40 lines of plain PyTorch with real processes, which prints one line ``BUG …`` or ``OK …``
    and ends by itself
``control.py``
    the same computation in one process with plain autograd, where there is such a thing
``scenario.json``
    the same under squall

    python -m squall.properties.findings page                     writes docs/findings.md
    python -m squall.properties.findings run --torch 2.15.0       (make findings TORCH=2.15.0)
"""
