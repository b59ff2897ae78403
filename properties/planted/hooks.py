"""Several hooks in one place, and hooks that are called without a gradient."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 37
MUTANTS = (
    Mutant(
        name="each-post-hook-sees-the-first-outputs",
        wrong="a hook behind a node sees what the node returned, not what the hook before it left",
        place="autograd.hooks:call_post_hooks",
        old="call(values, given)",
        new="call(tuple(outputs), given)",
        origin="blind",
    ),
    Mutant(
        name="post-hooks-see-outputs-for-inputs",
        wrong="a hook behind a node sees the outputs that are left for the inputs of the node",
        place="autograd.hooks:call_post_hooks",
        old="call(values, given)",
        new="call(values, values)",
    ),
    Mutant(
        name="each-pre-hook-sees-the-first-inputs",
        wrong="a hook before a node sees what came for the node, not what the hook before it left",
        place="autograd.hooks:call_pre_hooks",
        old="call(values), call)",
        new="call(tuple(inputs)), call)",
    ),
    Mutant(
        name="each-tensor-hook-sees-the-first-gradient",
        wrong="a hook of a tensor sees the gradient that came, not what the hook before it left",
        place="autograd.hooks:_call_hooks",
        old="    for call in hooks:\n        grad = _check_single_result(grad, call(grad), call)\n",
        new="    came = grad\n    for call in hooks:\n"
        "        grad = _check_single_result(grad, call(came), call)\n",
    ),
    Mutant(
        name="last-tensor-hook-first",
        wrong="the hooks of a tensor are called in the wrong order",
        place="autograd.hooks:_call_hooks",
        old="for call in hooks:",
        new="for call in reversed(hooks):",
    ),
    Mutant(
        name="leaf-post-hooks-only-with-a-gradient",
        wrong="a hook behind an AccumulateGrad is not called without a gradient",
        place="autograd.capture_hook:DistAccumulateGradCaptureHook._accumulate",
        old="return not graph_task.has_error",
        new="return False",
        origin="blind",
    ),
    Mutant(
        name="leaf-pre-hooks-only-with-a-gradient",
        wrong="a hook before an AccumulateGrad is not called without a gradient",
        place="autograd.capture_hook:DistAccumulateGradCaptureHook.__call__",
        old="if not any(hooks):",
        new="if not any(hooks) or input_grads[0] is None:",
    ),
    Mutant(
        name="leaf-hooks-only-with-a-gradient",
        wrong="a hook of a leaf is not called without a gradient",
        place="autograd.hooks:call_leaf_hooks",
        old="if hooks:",
        new="if hooks and inputs[0] is not None:",
    ),
    Mutant(
        name="tensor-hooks-only-with-a-gradient",
        wrong="a hook of a tensor is not called without a gradient, where another one of the node's is",
        place="autograd.hooks:call_tensor_pre_hooks",
        old="    for index, each in calls:\n",
        new="    for index, each in calls:\n        if outputs[index] is None:\n            continue\n",
    ),
    Mutant(
        name="pre-hooks-only-with-gradients",
        wrong="a hook before a node is not called if one of its gradients is missing",
        place="autograd.hooks:call_pre_hooks",
        old="    for hook in node_abi().pre_hooks(pointer):\n",
        new="    for hook in node_abi().pre_hooks(pointer) if None not in values else ():\n",
    ),
    Mutant(
        name="post-hooks-see-what-came",
        origin="blind",
        wrong="a hook behind a node is given the gradients as they came, not as the hooks before it left them",
        place="autograd.engine:Engine.call_function",
        old="outputs = call_post_hooks(pointer, outputs, inputs)",
        new="outputs = call_post_hooks(pointer, outputs, input_buffer.buffer)",
    ),
)
