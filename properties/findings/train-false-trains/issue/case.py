import torch.distributed.rpc as rpc
from torch import nn
from torch.distributed.nn import RemoteModule
from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.dist_utils import dist_init, worker_name
from torch.testing._internal.distributed.rpc.rpc_agent_test_fixture import RpcAgentTestFixture
from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import (
    TensorPipeRpcAgentTestFixture,
)
from torch.testing._internal.distributed.rpc_utils import generate_tests


def is_training(module_rref):
    return module_rref.local_value().training


class TrainModeTest(RpcAgentTestFixture):
    @dist_init
    def test_train_takes_its_mode(self):
        dst = worker_name((self.rank + 1) % self.world_size)
        remote = RemoteModule(f"{dst}/cpu", nn.Dropout)
        whole = nn.Sequential(remote)
        for switch, expected in (
            (lambda: remote.train(False), False),
            (lambda: remote.train(), True),
            (lambda: remote.eval(), False),
            (lambda: remote.train(True), True),
            (lambda: whole.eval()[0], False),
        ):
            self.assertIs(switch(), remote)
            training = rpc.rpc_sync(dst, is_training, args=(remote.get_module_rref(),))
            self.assertEqual(training, expected)


globals().update(
    generate_tests("TensorPipe", TensorPipeRpcAgentTestFixture, [TrainModeTest], __name__)
)

if __name__ == "__main__":
    run_tests()
