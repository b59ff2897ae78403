"""The tests of PyTorch's that say nothing about this simulator, each with the fact that says why.

A test that passes although it stands here fails the run: the table can only shrink.
"""

from __future__ import annotations

from collections.abc import Mapping

NOT_APPLICABLE: Mapping[str, str] = {}
