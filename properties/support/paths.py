"""Where the tests find what they read."""

from __future__ import annotations

from pathlib import Path

#: the folder of the tests
PROPERTIES = Path(__file__).resolve().parents[1]
#: the repository
ROOT = PROPERTIES.parent
#: scenarios that once failed
CORPUS = PROPERTIES / "corpus"
#: scripts for stock PyTorch, with what they print
SCRIPTS = PROPERTIES / "scripts"
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
