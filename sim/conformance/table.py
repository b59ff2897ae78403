"""The tests of PyTorch's that cannot apply to this simulator, each with the reason.

A test that passes although it stands here fails the run: the table can only shrink.
"""

from __future__ import annotations

from collections.abc import Mapping

_SCRIPTED_RPC = (
    "calls RPC or RRef.to_here() from inside TorchScript, which compiles it to torch's own agent"
)
_SCRIPTED_RREF = "passes an RRef to a TorchScript function, which takes torch's compiled RRef only"

#: by the test's id, a reason
NOT_APPLICABLE: Mapping[str, str] = {
    "DistAutogradTest.test_trainer_ps_torchscript_functions": _SCRIPTED_RREF,
    "JitFaultyAgentRpcTest.test_remote_timeout_to_here_in_jit": _SCRIPTED_RPC,
    "JitFaultyAgentRpcTest.test_rref_timeout_pickle_in_jit": _SCRIPTED_RPC,
    "JitFaultyAgentRpcTest.test_rref_timeout_pickle_script_func": _SCRIPTED_RREF,
    "JitFaultyAgentRpcTest.test_rref_to_here_timeout_in_jit": _SCRIPTED_RPC,
    "JitFaultyAgentRpcTest.test_timeout_in_python": _SCRIPTED_RPC,
    "JitFaultyAgentRpcTest.test_timeout_in_torchscript_function": _SCRIPTED_RPC,
    "RpcTest.test_pg_init_no_rpc_init": (
        "wraps a model in DistributedDataParallel, whose reducer is compiled code over a compiled "
        "process group"
    ),
    "TensorPipeAgentRpcTest"
    ".test_dynamic_rpc_existing_rank_can_communicate_with_new_rank_cuda": "needs two CUDA devices",
}

#: the same for the engine ``torch``
NOT_APPLICABLE_TORCH: Mapping[str, str] = {}
