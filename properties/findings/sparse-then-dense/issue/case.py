import torch
import torch.distributed.autograd as dist_autograd
import torch.nn.functional as F
from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.dist_utils import dist_init
from torch.testing._internal.distributed.rpc.rpc_agent_test_fixture import RpcAgentTestFixture
from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import (
    TensorPipeRpcAgentTestFixture,
)
from torch.testing._internal.distributed.rpc_utils import generate_tests


class SparseThenDenseTest(RpcAgentTestFixture):
    @dist_init
    def test_dense_grad_after_sparse_grad(self):
        table = torch.rand(4, 3, requires_grad=True)
        rows = torch.tensor([0, 2])
        local = torch.autograd.grad(table[rows].sum() + (10 * table).sum(), table)[0]
        with dist_autograd.context() as context_id:
            loss = F.embedding(rows, table, sparse=True).sum()
            dist_autograd.backward(context_id, [loss])
            dist_autograd.backward(context_id, [(10 * table).sum()])
            grad = dist_autograd.get_gradients(context_id)[table]
        self.assertEqual(local, grad.to_dense())


globals().update(
    generate_tests("TensorPipe", TensorPipeRpcAgentTestFixture, [SparseThenDenseTest], __name__)
)

if __name__ == "__main__":
    run_tests()
