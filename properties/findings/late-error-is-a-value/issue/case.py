import torch
import torch.distributed.rpc as rpc
from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.dist_utils import dist_init, worker_name
from torch.testing._internal.distributed.rpc.rpc_agent_test_fixture import RpcAgentTestFixture
from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import (
    TensorPipeRpcAgentTestFixture,
)
from torch.testing._internal.distributed.rpc_utils import generate_tests


@rpc.functions.async_execution
def fail():
    future = torch.futures.Future()
    future.set_exception(ValueError("no"))
    return future


class AsyncErrorTest(RpcAgentTestFixture):
    @dist_init
    def test_async_function_set_exception(self):
        dst = worker_name((self.rank + 1) % self.world_size)
        with self.assertRaisesRegex(ValueError, "no"):
            rpc.rpc_sync(dst, fail)
        with self.assertRaisesRegex(ValueError, "no"):
            rpc.rpc_async(dst, fail).wait()
        with self.assertRaisesRegex(ValueError, "no"):
            rpc.remote(dst, fail).to_here()


globals().update(
    generate_tests("TensorPipe", TensorPipeRpcAgentTestFixture, [AsyncErrorTest], __name__)
)

if __name__ == "__main__":
    run_tests()
