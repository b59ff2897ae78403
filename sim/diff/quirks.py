"""What PyTorch's engine does otherwise than the port, as patches of the port.

With the quirks the port does the same as PyTorch, so both are compared exactly: values, ends, texts and the number
of messages. What is left is known by rules (sim/diff/rules.py), or is not known. A quirk that a torch no longer
has shows as a difference that no rule predicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

from squall.sim.scenarios.patch import Patch, together


class Quirk(NamedTuple):
    """``name``: a row of docs/divergences.md, which is that of a finding if there is one."""

    name: str
    patches: tuple[Patch, ...]


def _quirk(name: str, *changes: tuple[str, str, str]) -> Quirk:
    """``changes``: place, old and new of each patch."""
    patches = (Patch(name=name, place=place, old=old, new=new) for place, old, new in changes)
    return Quirk(name, tuple(patches))


#: what a callback for a creation that has failed has in place of what comes first
_NOBODY_HEARS = (
    "    if error is not None:\n",
    """\
    if error is not None and not str(error).startswith("RPCErr:1:"):
        reply._callbacks.clear()
        context.worker.agent._in_flight.made += 1
        return
    if error is not None:
""",
)
QUIRKS = (
    # The call is made where the type arrives: which is in no context.
    _quirk(
        "async-helper-without-context",
        (
            "rpc.rref_proxy:_invoke_rpc",
            """\
        before, task.autograd_context_id = task.autograd_context_id, context_id
""",
            """\
        before = task.autograd_context_id
""",
        ),
    ),
    # Whoever asks for the type of a reference of its own waits for the value.
    _quirk(
        "own-reference-blocks-rpc-async",
        (
            "rpc.py_rref:RRef._get_type",
            """\
        future = rref.future.map(_type_of)
""",
            """\
        try:
            rref.future.wait()
        except Exception:
            pass
        future = rref.future.map(_type_of)
""",
        ),
    ),
    # What a reference has said first of its type, a future or a type, is what it says ever after.
    _quirk(
        "failed-type-is-kept",
        (
            "rpc.py_rref:RRef._get_type",
            """\
    if not blocking and asked is not None and asked.error is None:
        return asked
    if known is not None:
        return known if blocking else completed(known, runtime=rref.context.worker.runtime)
""",
            """\
    if known is not None or asked is not None:
        return known if asked is None else asked
""",
        ),
        (
            "rpc.rref_proxy:_invoke_rpc",
            "return call(rref._get_type(timeout=timeout, blocking=True))",
            "return call(rref._get_type(timeout=timeout, blocking=False).wait())",
        ),
    ),
    # The callee records its answer by its own grad mode, the caller by its own.
    _quirk(
        "call-under-no-grad",
        (
            "rpc.request_callback:RequestCallback.process_forward_autograd_req",
            """\
                MessageType.FORWARD_AUTOGRAD_RESP,
                recorded=rpc.recorded,
""",
            """\
                MessageType.FORWARD_AUTOGRAD_RESP,
""",
        ),
        (
            "autograd.utils:unwrap_forward_response",
            "recorded=wrapper.recorded,",
            "recorded=torch.is_grad_enabled(),",
        ),
    ),
    # A pass that waits when its context is released waits for ever, and nobody waits for it.
    _quirk(
        "pass-left-behind",
        ("autograd.context:DistAutogradContext.release", "self.give_up_pass(graph_task)", "pass"),
        ("rpc.in_flight:InFlight.count", "self.made + self.served", "self.made"),
    ),
    # A gradient is taken over although another one has the same storage.
    _quirk(
        "gradient-stolen",
        (
            "autograd.accumulate:is_stealable",
            """\
            and _storage_use_count(storage._cdata) == _UNSHARED_STORAGE
""",
            "",
        ),
        # All strides are looked at, those of one element have to be more than 0.
        (
            "autograd.accumulate:obeys_layout_contract",
            """\
    if grad.is_contiguous() and variable.is_contiguous():
        return True
    if not is_non_overlapping_and_dense(variable):
        return grad.is_contiguous()
    return all(
        size == 1 or ours == theirs
""",
            """\
    if not is_non_overlapping_and_dense(variable):
        return grad.is_contiguous()
    return all(
        ours != 0 if size == 1 else ours == theirs
""",
        ),
    ),
    _quirk(
        "sparse-then-dense",
        ("autograd.accumulate:accumulate_grad", "grads[variable] = new + old ", "pass "),
    ),
    # An exception becomes the value, also that of a future that has one; whoever waits in its process has it raised.
    _quirk(
        "late-error-is-a-value",
        (
            "future:Future.set_exception",
            "self.set_error(result)",
            """\
def unwrap(value: BaseException) -> object:
        raise value

    self.unwrap = unwrap
    self.mark_completed(result)""",
        ),
    ),
    # A parameter without gradient in the context is stepped with what an earlier step has left.
    _quirk(
        "optimizer-keeps-grad",
        (
            "rpc.optimizer:_LocalOptimizer.step",
            """\
        for param, _ in absent:
            param.grad = None
""",
            "",
        ),
    ),
    # A call that comes after its context was released makes it anew.
    _quirk(
        "context-came-back",
        (
            "autograd.container:DistAutogradContainer.get_or_create_context",
            """\
        if context_id in self._released:
            return None
""",
            "",
        ),
    ),
    # The answer to a call whose context was released meanwhile is an error.
    _quirk(
        "released-while-it-was-called",
        (
            "autograd.utils:get_message_with_autograd",
            """\
    context = container.current_context()
""",
            """\
    try:
        context = container.current_context()
    except RuntimeError:
        if message_type != MessageType.FORWARD_AUTOGRAD_RESP:
            raise
        text = "Couldn't find autograd context data for current autograd context id"
        raise RuntimeError(text) from None
""",
        ),
    ),
    # All tensors of a message that share a storage arrive with the type of the first.
    _quirk(
        "storage-of-two-types",
        (
            "rpc.tensor_copies:_copy_strided",
            """\
    if shared is None:
""",
            """\
    dtype = tensor.dtype
    if storages is not None:
        dtype = storages.setdefault(("type", storage._cdata), dtype)  # has no address if it is empty
    if shared is None:
""",
        ),
        (
            "rpc.tensor_copies:_copy_strided",
            "if nbytes == tensor.nbytes and",
            "if nbytes == tensor.nbytes and dtype is tensor.dtype and",
        ),
        (
            "rpc.tensor_copies:_copy_strided",
            "torch.empty(0, dtype=tensor.dtype,",
            "torch.empty(0, dtype=dtype,",
        ),
        # The pass refuses a complex gradient of a real tensor, in words of its own.
        (
            "autograd.validate:make_fit",
            """\
        raise RuntimeError(
            f"{_invalid(node, index)} - expected type {expected.dtype} but got {grad.dtype}"
        )
""",
            """\
        raise RuntimeError(
            "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex) "
            "to be true, but got false.  (Could this error message be improved?  If so, please "
            "report an enhancement request to PyTorch.)"
        )
""",
        ),
        # Whoever receives it finds that the storage is too small for that type.
        (
            "rpc.tensor_copies:_copy_strided",
            """\
    if shared.nbytes() != nbytes:  # it was enlarged to fit
""",
            """\
    if shared.nbytes() != nbytes and dtype is not tensor.dtype:
        sizes, strides = (" ".join(map(str, each)) for each in (copied.size(), copied.stride()))
        copied.unreadable = (
            f"Tensor: sizes {sizes}, strides {strides}, storage offset {copied.storage_offset()} and "
            f"itemsize {dtype.itemsize} require a storage of at least {shared.nbytes()} bytes, but "
            f"storage only has {nbytes} bytes"
        )
    elif shared.nbytes() != nbytes:
""",
        ),
        (
            "rpc.request_callback:RequestCallback._process",
            """\
    context: RRefContext | None = None
""",
            """\
    for tensor in request.tensors:
        if hasattr(tensor, "unreadable"):
            return failed(RpcError(tensor.unreadable), runtime=self.worker.runtime)
    context: RRefContext | None = None
""",
        ),
    ),
    # The error of a future is text: what a call raised there that an async function hands on, too.
    _quirk(
        "handed-on-error-is-text",
        (
            "rpc.request_callback:RequestCallback._run_python_udf",
            """\
            error = result.error
            if error is None:
""",
            """\
            error = result.error
            try:
                if error is None and isinstance(result.raw_value(), RemoteException):
                    result.value()
            except Exception as raised:
                error = RpcError(str(raised))
            if type(error) is RuntimeError:
                error = RpcError(str(error))
            if error is None:
""",
        ),
    ),
    # A thread has one profile: a call that is to be profiled fails where all that its worker does is.
    _quirk(
        "profile-within-a-profile",
        (
            "rpc.request_callback:RequestCallback.process_run_with_profiling_req",
            "    with profiler.here():\n",
            """\
    if server_profiles(self.worker):
        raise RuntimeError("Profiler is already enabled on this thread")
    with profiler.here():
""",
        ),
    ),
    # Whoever makes a value hears of its creation's failure in a callback, which raises that and so ends there: other
    # callbacks are not called, the call stays counted, and the user pending. The owner tells nobody.
    _quirk(
        "failed-creation-hangs",
        (
            "rpc.rref_creation:confirm_pending_user",
            *_NOBODY_HEARS,
        ),
        (
            "rpc.rref_creation:finish_creating_owner_rref",
            *_NOBODY_HEARS,
        ),
        (
            "rpc.request_callback:RequestCallback._abandon",
            "context.owner_tables.creation_failed(command.rref_id, str(reply.error))",
            "pass",
        ),
        (
            "rpc.rref_context:RRefContext.del_all_users_and_unforked_owners",
            "owners.give_up_creations(OVER)",
            "pass",
        ),
    ),
)


def applied(quirks: Iterable[Quirk] = QUIRKS) -> AbstractContextManager[None]:
    """The port does what PyTorch does. Raises PatchError if a quirk does not fit it any more."""
    return together(patch for quirk in quirks for patch in quirk.patches)
