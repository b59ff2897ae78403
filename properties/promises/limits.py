"""Limits of 0, -1, less than a millisecond and more than a clock holds, at every place that takes one: 0 is none, and one
that is over raises."""

import math
import time

import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from promise import outcome, promise, start

WORK_S = 0.5
VALUES = {
    "0": 0,
    "-1": -1,
    "-0.5": -0.5,
    "1e-9": 1e-9,
    "0.0005": 0.0005,
    "0.05": 0.05,
    "1e6": 1e6,
    "3e6": 3e6,
    "1e18": 1e18,
    "inf": math.inf,
    "nan": math.nan,
    "a text": "5",
    "None": None,
    "True": True,
}


def slow():
    time.sleep(WORK_S)
    return 7


class Slow:
    def work(self):
        return slow()


#: by place: the call
PLACES = {
    "rpc_sync": lambda to, limit: rpc.rpc_sync(to, slow, timeout=limit),
    "rpc_async": lambda to, limit: rpc.rpc_async(to, slow, timeout=limit).wait(),
    "remote": lambda to, limit: held(rpc.remote(to, slow, timeout=limit)),
    "to_here": lambda to, limit: rpc.remote(to, slow).to_here(limit),
    "a helper": lambda to, limit: rpc.remote(to, Slow).rpc_sync(timeout=limit).work(),
    "a helper, asynchronously": lambda to, limit: (
        rpc.remote(to, Slow).rpc_async(timeout=limit).work().wait()
    ),
    "a default": lambda to, limit: with_default(to, limit),
}


def held(ref):
    """The error of a creation is set a moment after its time is over."""
    time.sleep(2 * WORK_S)
    return ref.to_here()


def with_default(to, limit):
    before = rpc.get_rpc_timeout()
    rpc._set_rpc_timeout(limit)
    try:
        return rpc.rpc_sync(to, slow)
    finally:
        rpc._set_rpc_timeout(before)


def expected(limit):
    if limit is None or isinstance(limit, str):
        return TypeError
    if limit != limit:
        return "refused"
    # A limit of -1 says that none is given, so that the default is meant.
    if limit is True or limit in (0, -1) or limit >= WORK_S:
        return 7
    return "timed out"


def told(call):
    got = outcome(call)
    return "refused" if isinstance(got, type) and got is not TypeError else got


def main():
    for place, call in PLACES.items():
        for name, limit in VALUES.items():
            if (place, name) != ("a default", "-1"):  # it can be no default of itself
                promise(
                    f"{place} with {name}", lambda: told(lambda: call("w1", limit)), expected(limit)
                )
    for name, limit in VALUES.items():
        made = outcome(
            lambda limit=limit: rpc.TensorPipeRpcBackendOptions(rpc_timeout=limit).rpc_timeout
        )
        good = not isinstance(limit, str) and limit is not None and limit == limit and limit >= 0
        promise(
            f"options.rpc_timeout of {name}", lambda made=made: isinstance(made, type), not good
        )
    for number in (0, -1, 1, 2**31, 2.5, "4", None):
        good = isinstance(number, int) and 0 < number < 2**31
        promise(
            f"options.num_worker_threads of {number!r}",
            lambda number=number: isinstance(
                outcome(lambda: rpc.TensorPipeRpcBackendOptions(num_worker_threads=number)), type
            ),
            not good,
        )
    for number in (-1, 3, 2**15, 2**31, 2**63, 1.0, True, None):
        promise(
            f"worker {number!r}",
            lambda number=number: isinstance(outcome(lambda: rpc.rpc_sync(number, slow)), type),
            number is not True,
        )
    for number in (-1, 0, 2**62, 2**63, 2**64, 1.5, None, "0"):
        promise(
            f"gradients of context {number!r}",
            lambda number=number: isinstance(
                outcome(lambda: dist_autograd.get_gradients(number)), type
            ),
            True,
        )


if __name__ == "__main__":
    start(main)
