"""Locks of the whole process, for what threads of all its workers share: torch itself.

No lock of one worker's runtime will do there. Code under either of them never waits for another
task, so tasks that take turns on one thread never wait for it.
"""

from __future__ import annotations

import threading

#: TorchScript compiles for one thread at a time, and a module is imported once; may be taken again
COMPILING = threading.RLock()
#: held while the hooks of a tensor are out of its table, where a pass of another context, on
#: another thread, would miss them; no user code runs under it
TENSOR_HOOKS = threading.Lock()
