"""RPC, remote references, and the messages that carry them."""
