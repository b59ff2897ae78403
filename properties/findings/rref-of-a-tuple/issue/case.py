import torch
import torch.distributed.rpc as rpc
from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.dist_utils import dist_init, worker_name
from torch.testing._internal.distributed.rpc.rpc_agent_test_fixture import RpcAgentTestFixture
from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import (
    TensorPipeRpcAgentTestFixture,
)
from torch.testing._internal.distributed.rpc_utils import generate_tests


def make_pair():
    return rpc.RRef((torch.ones(2), 3))


class RRefOfATupleTest(RpcAgentTestFixture):
    @dist_init
    def test_rref_of_a_tuple(self):
        dst = worker_name((self.rank + 1) % self.world_size)
        tensor, number = rpc.rpc_sync(dst, make_pair).to_here()
        self.assertEqual(tensor, torch.ones(2))
        self.assertEqual(number, 3)


globals().update(
    generate_tests("TensorPipe", TensorPipeRpcAgentTestFixture, [RRefOfATupleTest], __name__)
)

if __name__ == "__main__":
    run_tests()
