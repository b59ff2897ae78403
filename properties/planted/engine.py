"""Passes and their ends, what nodes and hooks return, and gradients of every layout."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 70
MUTANTS = (
    Mutant(
        name="missing-gradient-is-one",
        wrong="an output that nobody used has a gradient of ones",
        place="autograd.recv_function:RecvRpcBackward.apply",
        old="zeros_like_input(metadata) if grad is None",
        new="zeros_like_input(metadata) + 1 if grad is None",
    ),
    Mutant(
        name="zeros-of-another-type",
        wrong="the gradient of an unused output has the default type",
        place="autograd.python_node:zeros_like_input",
        old="dtype=metadata.dtype, ",
        new="",
    ),
    Mutant(
        name="passes-numbered-alike",
        wrong="all passes that a worker begins in a context have one number",
        place="autograd.dist_engine:DistEngine._execute",
        old="pass_id = self._pass_ids.next()",
        new="pass_id = context.latest_pass or self._pass_ids.next()",
    ),
    Mutant(
        name="pass-of-anybody-is-earlier",
        wrong="passes of two workers are taken to follow each other by their ids",
        place="ids:is_before",
        old="return maker_of(one) == maker_of(other) and one < other",
        new="return one < other",
        needs="R",
    ),
    Mutant(
        name="final-callback-once-only",
        wrong="callbacks queued by callbacks are not called",
        place="autograd.graph_task:GraphTask.exec_post_processing",
        old="for callback in iter(self._next_callback, None):",
        new="for callback in list(self.final_callbacks):",
    ),
    Mutant(
        name="final-callbacks-outside-a-pass",
        wrong="callbacks at the end of a pass cannot queue others",
        place="autograd.graph_task:GraphTask.exec_post_processing",
        old="        with GraphTaskGuard(self):  # a callback may install another one\n"
        "            for",
        new="        if True:\n            for",
    ),
    Mutant(
        name="final-callback-error-swallowed",
        wrong="an error of a callback at the end of a pass is swallowed",
        place="autograd.graph_task:GraphTask.mark_as_completed_and_run_post_processing",
        old="        self.future_result.try_fail(error)\n",
        new="        self.future_result.try_complete(self.captured_vars)\n",
    ),
    Mutant(
        name="pass-not-put-back",
        wrong="a pass within a hook stays the current one when it is over",
        place="autograd.graph_task:GraphTaskGuard.restore_current_graph_task",
        old="self._locals[_TASK_KEY] = self._last",
        new="pass",
        unseen="each part of a pass has a task of its own, which ends with it",
    ),
    Mutant(
        name="sum-dropped",
        wrong="a gradient of a table that was sparse and becomes dense replaces what was there",
        place="autograd.accumulate:accumulate_grad",
        old="grads[variable] = new + old",
        new="grads[variable] = new",
    ),
    Mutant(
        name="dense-layout-of-the-gradient",
        wrong="a gradient is kept in its own layout, not in that of the variable",
        place="autograd.accumulate:clone_obey_contract",
        old="    if is_non_overlapping_and_dense(variable):\n",
        new="    if False:\n",
    ),
    Mutant(
        name="taken-over-in-any-layout",
        wrong="a gradient is taken over whatever its layout is",
        place="autograd.accumulate:obeys_layout_contract",
        old="    if grad.is_contiguous() and variable.is_contiguous():\n",
        new="    if True:\n",
    ),
    Mutant(
        name="holes-copied",
        wrong="gradients of variables with gaps have gaps too",
        place="autograd.accumulate:is_non_overlapping_and_dense",
        old="            if stride != expected:\n                return False\n",
        new="",
    ),
    Mutant(
        name="complex-gradients-conjugated",
        wrong="gradients that are added in a buffer are conjugated",
        place="autograd.input_buffer:accumulate",
        old="    return old + new\n",
        new="    return old + new.conj()\n",
    ),
    Mutant(
        name="wrong-shape-kept",
        wrong="a gradient that does not fit its input is handed on",
        place="autograd.validate:make_fit",
        old="        if not _is_expandable_to(shape, grad.shape):\n",
        new="        if not _is_expandable_to(shape, grad.shape):\n"
        "            return grad\n"
        "        if False:\n",
    ),
    Mutant(
        name="too-few-gradients",
        wrong="a backward that gives too few gradients is taken to give none for the rest",
        place="autograd.python_node:apply_python_node",
        old="    if len(returned) != expected:\n",
        new="    returned = (*returned, *[None] * (expected - len(returned)))\n"
        "    if len(returned) != expected:\n",
    ),
    Mutant(
        name="hooks-see-the-wrong-side",
        wrong="hooks after a node see what it gave, not what it was given",
        place="autograd.hooks:call_post_hooks",
        old="    given = tuple(inputs)\n",
        new="    given = tuple(outputs)\n",
    ),
    Mutant(
        name="hook-may-give-anything",
        wrong="what a hook returns is not looked at",
        place="autograd.hooks:_check_single_result",
        old="    if result is None:\n        return original\n",
        new="    if result is None or not isinstance(result, Tensor):\n        return original\n",
    ),
    Mutant(
        name="hook-may-change-the-type",
        wrong="a hook may change the type of a gradient",
        place="autograd.hooks:_check_single_result",
        old="if original.type() != result.type():",
        new="if False:",
    ),
    Mutant(
        name="hook-may-change-the-size",
        wrong="a hook may change the shape of a gradient",
        place="autograd.hooks:_check_single_result",
        old="if original.shape != result.shape:",
        new="if False:",
    ),
    Mutant(
        name="further-nones-refused",
        wrong="a backward that gives None for what it was not given is refused",
        place="autograd.python_node:apply_python_node",
        old="        returned = returned[:expected]\n",
        new="        pass\n",
    ),
    Mutant(
        name="real-gradient-refused",
        wrong="a real gradient of a complex tensor is refused",
        place="autograd.validate:make_fit",
        old="if grad.is_complex() != expected.dtype.is_complex and not grad.is_floating_point():",
        new="if grad.is_complex() != expected.dtype.is_complex:",
    ),
    Mutant(
        name="bfloat16-kept",
        wrong="a gradient in bfloat16 is not converted to the type of its input",
        place="autograd.validate:make_fit",
        old="if grad.dtype is not expected.dtype:",
        new="if grad.dtype is not expected.dtype and grad.dtype is not torch.bfloat16:",
    ),
)
