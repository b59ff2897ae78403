"""Limits that a call has of its own, what is under way as a group ends, and hooks and errors in a row."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 207
MUTANTS = (
    Mutant(
        name="no-limit-of-a-call-is-the-default",
        origin="blind",
        wrong="a limit of 0 for a call is taken for none given",
        place="rpc.calls:_invoke_rpc",
        old="timeout_s = seconds(timeout)",
        new="timeout_s = seconds(timeout) or UNSET_RPC_TIMEOUT",
    ),
    Mutant(
        name="no-limit-of-a-fetch-is-the-default",
        origin="blind",
        wrong="a limit of 0 for a fetch is taken for none given",
        place="rpc.fetch:fetch",
        old="worker, user.owner_id, request, force_grad_recording=True, timeout_s=timeout_s",
        new="worker, user.owner_id, request, force_grad_recording=True, timeout_s=timeout_s or -1.0",
    ),
    Mutant(
        name="connection-that-breaks-ends-no-call",
        origin="blind",
        wrong="calls over a connection that breaks wait for their limits, unless the process has ended",
        place="rpc.agent:RpcAgent.peer_lost",
        old="self._calls.peer_lost(peer, reason)\n"
        "    if ended is None or not self.is_running:\n"
        "        return",
        new="if ended is None or not self.is_running:\n"
        "        return\n"
        "    self._calls.peer_lost(peer, reason)",
        needs="LEX",
    ),
    Mutant(
        name="over-before-its-callbacks",
        origin="blind",
        wrong="a group may end between the answer to a call and the call that its callback makes",
        place="rpc.call_table:CallTable._finish",
        old="    try:\n"
        "        if error is not None:\n"
        "            call.future.try_fail(error)\n"
        "        elif message is not None:\n"
        "            with on_streams(message.streams):\n"
        "                call.future.try_complete(message)\n"
        "    finally:\n"
        "        context = self._worker.rref_context\n"
        "        if context is not None and context.leaving:\n"
        "            context.give_back_users()\n"
        "        # After the callbacks, which may have made calls: join must not see a gap.\n"
        "        self._in_flight.made_one_less()",
        new="    self._in_flight.made_one_less()\n"
        "    try:\n"
        "        if error is not None:\n"
        "            call.future.try_fail(error)\n"
        "        elif message is not None:\n"
        "            with on_streams(message.streams):\n"
        "                call.future.try_complete(message)\n"
        "    finally:\n"
        "        context = self._worker.rref_context\n"
        "        if context is not None and context.leaving:\n"
        "            context.give_back_users()",
    ),
    Mutant(
        name="served-but-not-counted",
        origin="blind",
        wrong="a group may end while a function is at work whose caller has given up",
        place="rpc.in_flight:InFlight.count",
        old="return self.made + self.served + (0 if references is None else references.to_be_told)",
        new="return self.made + (0 if references is None else references.to_be_told)",
    ),
    Mutant(
        name="retained-gradient-undoes-hooks",
        origin="blind",
        wrong="what hooks of a tensor return is lost where it retains its gradient as well",
        place="autograd.hooks:call_tensor_pre_hooks",
        old="outputs = _call_through_torch(func, outputs)",
        new="outputs = _call_through_torch(func, inputs)",
    ),
    Mutant(
        name="dropped-gradient-stays",
        origin="blind",
        wrong="a hook of a node cannot leave a gradient undefined",
        place="autograd.hooks:_check_result",
        old="    for old, new in zip(previous, result, strict=True):\n"
        "        _check_single_result(old, new, hook)\n"
        "    return result\n",
        new="    return tuple(\n"
        "        _check_single_result(old, new, hook) for old, new in zip(previous, result, strict=True)\n"
        "    )\n",
    ),
    Mutant(
        name="derived-error-loses-its-type",
        origin="blind",
        wrong="an error derived from ValueError arrives as RuntimeError",
        place="rpc.calls:raise_remote_exception",
        old="if isinstance(error, ValueError):",
        new="if type(error) is ValueError:",
    ),
    Mutant(
        name="proxy-forgets-grad-mode",
        origin="blind",
        wrong="the call of a proxy that had to ask for the type is recorded under no_grad",
        place="rpc.rref_proxy:_invoke_rpc",
        old="with torch.set_grad_enabled(grad_enabled), on_streams(streams), profiled:",
        new="with on_streams(streams), profiled:",
    ),
)
