"""Defaults of the RPC layer (torch/csrc/distributed/rpc/rpc_agent.h, types.h)."""

from datetime import timedelta

DEFAULT_RPC_TIMEOUT_S = 60.0
#: a timeout that was not given: the agent's default applies
UNSET_RPC_TIMEOUT = -1.0
#: a timeout that never fires
NO_RPC_TIMEOUT = 0.0
DEFAULT_INIT_METHOD = "env://"
DEFAULT_NUM_WORKER_THREADS = 16
DEFAULT_SHUTDOWN_TIMEOUT_S = 0.0

#: how often control messages are sent again, and how the wait between attempts grows
RREF_MAX_RETRIES = 5
CLEANUP_MAX_RETRIES = 20
RETRY_BASE_S = 1.0
RETRY_BACKOFF = 1.5

# The names under which torch.distributed.rpc.constants has them.
DEFAULT_RPC_TIMEOUT_SEC = DEFAULT_RPC_TIMEOUT_S
DEFAULT_SHUTDOWN_TIMEOUT = DEFAULT_SHUTDOWN_TIMEOUT_S
DEFAULT_PROCESS_GROUP_TIMEOUT = timedelta(milliseconds=2**31 - 1)
