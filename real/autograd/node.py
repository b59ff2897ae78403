"""What the graph is made of, for those that walk it."""

from __future__ import annotations

from typing import Any

#: a node of the autograd graph: torch's own, or a SendRpcBackward or GraphRoot of ours
Node = Any
#: a node, and which of its inputs
Edge = tuple[Node, int]
