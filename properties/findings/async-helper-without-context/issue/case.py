import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.dist_utils import dist_init, worker_name
from torch.testing._internal.distributed.rpc.rpc_agent_test_fixture import RpcAgentTestFixture
from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import (
    TensorPipeRpcAgentTestFixture,
)
from torch.testing._internal.distributed.rpc_utils import generate_tests


class Net:
    def double(self, x):
        return 2 * x


class HelperContextTest(RpcAgentTestFixture):
    @dist_init
    def test_rref_helpers_record_in_context(self):
        dst = worker_name((self.rank + 1) % self.world_size)
        for call in (
            lambda net, x: net.rpc_sync().double(x),
            lambda net, x: net.rpc_async().double(x).wait(),
            lambda net, x: net.remote().double(x).to_here(),
        ):
            x = torch.rand(3, requires_grad=True)
            net = rpc.remote(dst, Net)
            with dist_autograd.context() as context_id:
                dist_autograd.backward(context_id, [call(net, x).sum()])
                grads = dist_autograd.get_gradients(context_id)
                self.assertEqual(grads[x], torch.full_like(x, 2))


globals().update(
    generate_tests("TensorPipe", TensorPipeRpcAgentTestFixture, [HelperContextTest], __name__)
)

if __name__ == "__main__":
    run_tests()
