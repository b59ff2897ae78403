"""What is recorded as messages travel, and the contexts that it is recorded in."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 10
MUTANTS = (
    Mutant(
        name="recv-joins-every-tensor",
        origin="p30811, p30834, p30904",
        wrong="the receiver gives a history to tensors that need no gradient",
        place="autograd.utils:add_recv_rpc_backward",
        old="[t for t in tensors if t.requires_grad] if recorded",
        new="list(tensors) if recorded",
    ),
    Mutant(
        name="send-joins-every-tensor",
        origin="p30811, p30834, p30904",
        wrong="the sender records tensors that need no gradient: positions do not match",
        place="autograd.utils:get_message_with_autograd",
        old="[t for t in message.tensors if t.requires_grad] if recorded",
        new="list(message.tensors) if recorded",
    ),
    Mutant(
        name="fetch-not-recorded",
        origin="p28630",
        wrong="the fetch of an RRef carries no tensors, so to_here() is not recorded",
        place="rpc.fetch:fetch",
        old="force_grad_recording=True",
        new="force_grad_recording=False",
    ),
    Mutant(
        name="remote-not-recorded",
        origin="p28630",
        wrong="a call of remote() without tensors takes no context along",
        place="rpc.calls:begin_remote",
        old="force_grad_recording=operator is None",
        new="force_grad_recording=False",
    ),
    Mutant(
        name="call-not-recorded",
        origin="p28630",
        wrong="a call without tensors takes no context along",
        place="rpc.calls:_invoke_rpc",
        old="force_grad_recording=operator is None",
        new="force_grad_recording=False",
    ),
    Mutant(
        name="known-worker-only-with-tensors",
        origin="p30914",
        wrong="a worker is remembered only if a send function was attached: contexts leak there",
        place="autograd.utils:get_message_with_autograd",
        old="    context.add_known_worker_id(dst)",
        new="    if tensors:\n        context.add_known_worker_id(dst)",
    ),
    Mutant(
        name="release-reaches-one-hop",
        origin="i25525, p27951",
        wrong="a release is not passed on: contexts leak on workers reached through others",
        place="autograd.container:DistAutogradContainer._release",
        old="    self._send_release_context_rpc(",
        new="    if context_id >> 48 == self.worker_id:\n        self._send_release_context_rpc(",
    ),
    Mutant(
        name="release-only-here",
        origin="i25525, p27951",
        wrong="a release is not told to anybody",
        place="autograd.container:DistAutogradContainer._send_release_context_rpc",
        old="for worker_id in known_workers:",
        new="for worker_id in known_workers[:0]:",
    ),
    Mutant(
        name="release-forgets-a-worker",
        wrong="the last of the known workers is not told of the release",
        place="autograd.container:DistAutogradContainer._send_release_context_rpc",
        old="for worker_id in known_workers:",
        new="for worker_id in known_workers[: max(1, len(known_workers) - 1)]:",
    ),
    Mutant(
        name="response-in-the-context-of-its-task",
        origin="i38439, p38512, p39109",
        wrong="a response is wrapped for whatever context the completing task has",
        place="rpc.request_callback:RequestCallback.process_forward_autograd_req",
        old="of its own, or none.\n        task = current_task()\n"
        "        before, task.autograd_context_id = task.autograd_context_id, context_id",
        new="of its own, or none.\n        task = current_task()\n"
        "        before = task.autograd_context_id",
        needs="TO",
    ),
    Mutant(
        name="call-without-its-context",
        wrong="the function of a call does not run in the context that came with it",
        place="rpc.request_callback:RequestCallback.process_forward_autograd_req",
        old="context_id = context.context_id\n    task = current_task()\n"
        "    before, task.autograd_context_id = task.autograd_context_id, context_id",
        new="context_id = context.context_id\n    task = current_task()\n"
        "    before = task.autograd_context_id",
    ),
    Mutant(
        name="context-id-stays-behind",
        origin="p28312, i38710",
        wrong="a released context stays the current one of the task: no other can be made",
        place="autograd.container:DistAutogradContainer._release",
        old="        task.autograd_context_id = NO_CONTEXT",
        new="        pass",
    ),
    Mutant(
        name="nested-contexts",
        origin="p28312, p27022",
        wrong="a context inside another one takes its place, and its end ends both",
        place="autograd.container:DistAutogradContainer.new_context",
        old="if task.autograd_context_id != NO_CONTEXT:",
        new="if False:",
    ),
    Mutant(
        name="autograd-after-rpc",
        origin="p29069",
        wrong="autograd is set up after RPC has started: a peer's first message finds none",
        place="rpc.init:init_rpc",
        old="    dist_autograd._init(rank)\n    state = rpc_state(worker)\n"
        '    store = worker.world.store(f"{key}/rpc_prefix_{state.init_count}")\n'
        "    state.init_count += 1\n"
        "    _init_rpc_backend(backend, store, name, rank, world_size, options)",
        new="    state = rpc_state(worker)\n"
        '    store = worker.world.store(f"{key}/rpc_prefix_{state.init_count}")\n'
        "    state.init_count += 1\n"
        "    _init_rpc_backend(backend, store, name, rank, world_size, options)\n"
        "    dist_autograd._init(rank)",
        needs="R",
    ),
    Mutant(
        name="context-comes-back-to-life",
        wrong="a message that comes after the release makes the context anew",
        place="autograd.container:DistAutogradContainer.get_or_create_context",
        old="if context_id in self._released:",
        new="if False:",
        needs="R",
    ),
    Mutant(
        name="late-response-still-wrapped",
        wrong="a call that ends after the release of its context is answered with an error",
        place="rpc.request_callback:RequestCallback.process_forward_autograd_req",
        old="except ReleasedError:",
        new="except NotImplementedError:",
        needs="R",
    ),
    Mutant(
        name="response-by-its-own-grad-mode",
        wrong="whether a response is recorded depends on grad mode where it is made",
        place="autograd.utils:get_message_with_autograd",
        old="if recorded is None:",
        new="if True:",
    ),
    Mutant(
        name="response-recorded-in-any-case",
        wrong="the receiver of a response joins it although its sender did not",
        place="autograd.utils:unwrap_forward_response",
        old="recorded=wrapper.recorded,",
        new="recorded=True,",
        unseen="a response that is not to be recorded is not wrapped at all",
    ),
    Mutant(
        name="request-recorded-in-any-case",
        wrong="the receiver of a request joins it although its sender did not",
        place="rpc.request_callback:RequestCallback.process_forward_autograd_req",
        old="        rpc.from_worker_id,\n        recorded=rpc.recorded,\n    )",
        new="        rpc.from_worker_id,\n        recorded=True,\n    )",
    ),
    Mutant(
        name="grad-mode-does-not-travel",
        wrong="every wrapped message says that grad mode was on at its call",
        place="autograd.messages:RpcWithAutograd.to_message",
        old="message.type, self.recorded)",
        new="message.type, True)",
    ),
    Mutant(
        name="reply-read-under-another-grad-mode",
        wrong="a reply is read under the grad mode of the task that it comes in on",
        place="rpc.calls:_python_future",
        old="if here == grad_enabled:",
        new="if True:",
    ),
    Mutant(
        name="recv-under-no-grad",
        wrong="received tensors are joined under the grad mode of the task, which may be off",
        place="autograd.recv_function:set_history",
        old="    torch._C._set_grad_enabled(True)\n",
        new="",
        needs="T",
        unseen="grad mode is on wherever a message that was recorded is read",
    ),
    Mutant(
        name="context-of-proxy-calls-lost",
        wrong="a call through a proxy that waits for the type of the value has no context",
        place="rpc.rref_proxy:_invoke_rpc",
        old="before, task.autograd_context_id = task.autograd_context_id, context_id",
        new="before = task.autograd_context_id",
    ),
    Mutant(
        name="gradients-to-the-wrong-message",
        wrong="all messages of a worker have the same id: send functions take each other's place",
        place="autograd.container:DistAutogradContainer.new_autograd_message_id",
        old="return self._message_ids.next()",
        new="return self._message_ids.first",
    ),
    Mutant(
        name="tensors-of-a-message-swapped",
        wrong="the send function has the edges of its tensors in another order than the message",
        place="autograd.functions:SendRpcBackward.__init__",
        old="gradient_edges(tensors)",
        new="gradient_edges(tensors[::-1])",
    ),
    Mutant(
        name="second-output-of-a-node-lost",
        wrong="the edge of a tensor leads to the first output of the node that made it",
        place="autograd.functions:gradient_edge",
        old="return node, tensor.output_nr",
        new="return node, 0",
    ),
    Mutant(
        name="received-tensors-mixed-up",
        wrong="an object that has several tensors gets the first one for all of them",
        place="rpc.serialization:_Pickler.reducer_override",
        old="(len(tensors) - 1,)",
        new="(0,)",
    ),
    Mutant(
        name="requires-grad-lost-on-the-way",
        wrong="a tensor that requires grad arrives as one that does not",
        place="rpc.message:copy_tensor",
        old="    copied.requires_grad_()\n",
        new="",
    ),
    Mutant(
        name="message-shares-its-tensors",
        wrong="a received tensor is the sender's own: what one writes the other reads",
        place="rpc.message:copy_tensor",
        old="return tensor.clone()",
        new="return tensor",
    ),
    Mutant(
        name="send-function-without-a-message",
        wrong="the send function of a message that could not be sent stays: later passes wait for it",
        place="rpc.discard:take_back",
        old="            container.take_back(*RpcWithAutograd.metadata_of(message), to)\n",
        new="            pass\n",
    ),
    Mutant(
        name="send-function-outlives-its-call",
        wrong="the send function of a call that failed stays: later passes wait for it",
        place="autograd.utils:_drop_if_it_fails",
        old="        if error is not None:\n",
        new="        if False:\n",
    ),
    Mutant(
        name="message-that-cannot-be-made-stays",
        wrong="what a call has recorded stays where its message could not be sent at all",
        place="autograd.utils:send_message_with_autograd",
        old="        take_back(worker, dst, wrapped)\n",
        new="        pass\n",
    ),
)
