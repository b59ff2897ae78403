"""The tests of PyTorch's that cannot apply to this simulator, each with the reason.

A test that passes although it stands here fails the run: the table can only shrink.
"""

from __future__ import annotations

from collections.abc import Mapping

_SCRIPTED_RPC = (
    "calls RPC or RRef.to_here() from inside TorchScript, which compiles it to torch's own agent"
)
_SCRIPTED_RREF = "passes an RRef to a TorchScript function, which takes torch's compiled RRef only"

_TWO_DEVICES = (
    "TensorPipeAgentRpcTest.test_dynamic_rpc_existing_rank_can_communicate_with_new_rank_cuda"
)

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
    _TWO_DEVICES: "needs two CUDA devices",
}

_ON_DEVICES = "uses CUDA devices, and does not look whether there are any"
_OF_SEVERAL_SIZES = "gives all_to_all parts of several sizes, which gloo refuses"

#: the same for the engine ``torch``
NOT_APPLICABLE_TORCH: Mapping[str, str] = {
    "DistributedTest.test_SyncBatchNorm_process_group": "needs torchvision",
    "DistributedTest.test_all_to_all": _OF_SEVERAL_SIZES,
    "DistributedTest.test_all_to_all_complex": _OF_SEVERAL_SIZES,
    "DistributedTest.test_all_to_all_cuda": _ON_DEVICES,
    "DistributedTest.test_all_to_all_cuda_complex": _ON_DEVICES,
    "DistributedTest.test_all_to_all_full_group": _OF_SEVERAL_SIZES,
    "DistributedTest.test_all_to_all_full_group_cuda": _ON_DEVICES,
    "DistributedTest.test_all_to_all_group": _OF_SEVERAL_SIZES,
    "DistributedTest.test_all_to_all_group_cuda": _ON_DEVICES,
    "DistributedTest.test_barrier_timeout_arg": (
        "waits for ranks that leave meanwhile, which tells another error if they are sooner; "
        "PyTorch skips it on Linux (pytorch/pytorch#179691)"
    ),
    "DistributedTest.test_batch_isend_irecv_mixed_backend_err": "needs NCCL",
    "DistributedTest.test_batch_isend_irecv_op_err": _ON_DEVICES,
    "DistributedTest.test_ddp_logging_data_cpu": (
        "asks how many threads gloo has, which DistributedDataParallel reads out of a ProcessGroupGloo"
    ),
    "DistributedTest.test_new_subgroups_with_group_param": "names ranks 0 to 3, and has three",
    _TWO_DEVICES: "needs two CUDA devices",
}

_SPARSE = "uses sparse tensors, which the stand-in does not have"
_RACE = "fills on one stream what was zeroed on another without waiting for it, which is a race"
_LARGE = "multiplies matrices of 2,048 by 2,048 by 20,000 thirty times, which takes a CPU minutes"

#: the same for the tests of CUDA, played on the stand-in
NOT_APPLICABLE_STAND_IN: Mapping[str, str] = {
    "CudaRpcTest.test_profiler_remote_cuda": "asks for the times of kernels that CUDA measures",
    "TensorPipeAgentCudaRpcTest.test_cuda_future_callback_changes_devices": _RACE,
    "TensorPipeAgentCudaRpcTest.test_cuda_future_value_on_bad_device": _RACE,
    "TensorPipeAgentCudaRpcTest.test_cuda_future_can_extract_cuda_sparse_tensor": _SPARSE,
    "TensorPipeAgentCudaRpcTest"
    ".test_cuda_future_can_extract_custom_class_with_cuda_sparse_tensor": _SPARSE,
    "TensorPipeAgentCudaRpcTest.test_cuda_future_can_extract_list_with_cuda_sparse_tensor": _SPARSE,
    "TensorPipeAgentCudaRpcTest.test_owner_rref_forward_synchronization1": _LARGE,
    "TensorPipeAgentCudaRpcTest.test_owner_rref_forward_synchronization2": _LARGE,
    "TensorPipeAgentCudaRpcTest.test_owner_rref_forward_synchronization3": _LARGE,
    "TensorPipeAgentCudaRpcTest.test_owner_rref_forward_synchronization4": _LARGE,
    "TensorPipeAgentCudaRpcTest.test_rref_with_unpickleable_attributes": (
        "a method adds to a tensor that it does not return, and the next call is to find the sum: "
        "nothing waits for that kernel (pytorch/pytorch#57960), and here it runs late"
    ),
    "TensorPipeCudaDistAutogradTest.test_dist_autograd_sync_streams": (
        "compares with a pass of torch's own engine over several devices, of which that counts one "
        "where a device is written in Python"
    ),
}

#: of those the ones that would take too long to be played
NOT_PLAYED = frozenset(id for id, why in NOT_APPLICABLE_STAND_IN.items() if why is _LARGE)
