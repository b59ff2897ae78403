"""What no text for people has in it."""

from __future__ import annotations

import re

#: types of messages, pairs of numbers, ids of contexts, places in a plan, fields of events, functions of PyTorch's own
INTERNAL = re.compile(
    r"\b[A-Z]{2,}_[A-Z_]*[A-Z]\b|\(\d+, \d+\)|\b\d+:\d+\b(?! s)|(?<!context_id is )\b\d{15,}\b|"
    r"\b(?:messages|links|partitions|workers|inner)\[\d|\b(?:src|dst|id|number|rref|fork|context)=|"
    r"\b_?(?:gather_to_leader|receive_broadcast|broadcast_to_followers|local_invoke|local_optimizer_step)\b|"
    r"\bSpawnProcess-\d"
)
