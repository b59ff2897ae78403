"""Two things that meet: what is under way and a worker that leaves, a call that fails and a pass, user
code and grad mode, the steps of two trainers."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 130
MUTANTS = (
    # -- what is under way as a worker leaves its group
    Mutant(
        name="request-of-the-group-before",
        wrong="a request that waits for a thread while its worker enters the next group is handled there",
        place="rpc.agent:RpcAgent._handle",
        old="if callback is None or self.worker.agent is not self:",
        new="if callback is None:",
    ),
    Mutant(
        name="unsent-reply-keeps-forks",
        wrong="the references in a reply that is not sent, since its worker has left, stay in the next group",
        place="rpc.agent:RpcAgent._answer",
        old="        raise\n    take_back(self.worker, reply.dst, reply)",
        new="        raise",
    ),
    Mutant(
        name="call-begun-too-late",
        wrong="a call that begins while its agent is shut down never ends",
        place="rpc.agent:RpcAgent._end_if_over",
        old="if not self.is_running:",
        new="if False:",
        unseen="the agent has to be shut down between a handler's look at it and the entry of its call, "
        "which no campaign has drawn so far",
    ),
    Mutant(
        name="given-up-creation-kept-at-the-end",
        wrong="a reference whose creation was given up is not given back by a worker that leaves",
        place="rpc.rref_users:UserTables.end_pending_user",
        old="self.confirmed_users[fork_id] = weakref.ref(rref)",
        new="if error is None:\n            self.confirmed_users[fork_id] = weakref.ref(rref)",
    ),
    Mutant(
        name="failed-users-passed-over",
        wrong="a worker that leaves gives back only references whose creation has not failed",
        place="rpc.rref_context:RRefContext.give_back_users",
        old="if user is not None:",
        new="if user is not None and not user.failed:",
    ),
    Mutant(
        name="lost-worker-not-noted",
        wrong="that a worker which a context had reached is gone is not noted for its release",
        place="autograd.context:DistAutogradContext.worker_ended",
        old="self.lost_worker = worker_id",
        new="pass",
        needs="PK",
    ),
    Mutant(
        name="lost-worker-stops-a-release",
        wrong="a release goes no further where a worker has gone before",
        place="autograd.container:DistAutogradContainer._release",
        old="if context.lost_worker is not None:",
        new="if False:",
        needs="PK",
    ),
    Mutant(
        name="release-told-again",
        wrong="everybody is told of a release as often as somebody is lost",
        place="autograd.container:DistAutogradContainer.tell_everybody",
        old="if self._untold.pop(context_id, self) is self:",
        new="if context_id not in self._released:",
        needs="K",
    ),
    # -- a call that fails, and passes
    Mutant(
        name="fed-once-is-fed",
        wrong="gradients that a failed call owes are waited for, if an earlier pass had them",
        place="autograd.context:DistAutogradContext.drop_send_function",
        old="and function.fed_in != self.pass_id",
        new="and function.fed_in is None",
    ),
    Mutant(
        name="fed-is-not-noted",
        wrong="a pass that has had the gradients of a call fails with that call",
        place="autograd.dist_engine:DistEngine._feed",
        old="send_function.fed_in = request.pass_id",
        new="pass",
    ),
    Mutant(
        name="gradients-before-refusal",
        wrong="gradients of a pass that is refused wait for the next one",
        place="autograd.dist_engine:DistEngine.execute_send_function_async",
        old="graph_task, first = self._join_pass(",
        new="send_function.set_grads(request.grads)\n    graph_task, first = self._join_pass(",
    ),
    Mutant(
        name="failed-pass-keeps-gradients",
        wrong="gradients that a failed pass did not get to wait at their send functions",
        place="autograd.dist_engine:DistEngine._end",
        old="            root.let_go()",
        new="            pass",
    ),
    # -- user code and grad mode
    Mutant(
        name="hook-leaves-grad-mode",
        wrong="what a hook does to grad mode lasts for all nodes that its task runs then",
        place="autograd.engine:Engine.call_function",
        old="outputs = call_post_hooks(pointer, outputs, inputs)\n        torch._C._set_grad_enabled(False)",
        new="outputs = call_post_hooks(pointer, outputs, inputs)",
    ),
    Mutant(
        name="leaf-hook-leaves-grad-mode",
        wrong="what a hook of a leaf does to grad mode lasts for all nodes that its task runs then",
        place="autograd.engine:Engine._capture",
        old="        torch._C._set_grad_enabled(False)",
        new="        pass",
    ),
    Mutant(
        name="accumulate-hook-leaves-grad-mode",
        wrong="what a hook behind an AccumulateGrad does to grad mode lasts",
        place="autograd.capture_hook:DistAccumulateGradCaptureHook.__call__",
        old="call_post_hooks(self._pointer, [], input_grads)\n            torch._C._set_grad_enabled(False)",
        new="call_post_hooks(self._pointer, [], input_grads)",
    ),
    Mutant(
        name="grad-mode-on-after-edge-of-a-view",
        wrong="grad mode is on after a pass whose root is a view",
        place="autograd.functions:_used",
        old="torch._C._set_grad_enabled(recording)",
        new="torch._C._set_grad_enabled(True)",
        origin="blind",
    ),
    Mutant(
        name="edge-of-a-view-by-grad-mode",
        wrong="a pass whose root is a view cannot begin without grad mode",
        place="autograd.functions:_used",
        old="    torch._C._set_grad_enabled(True)\n    try:",
        new="    try:",
    ),
    # -- steps of several trainers
    Mutant(
        name="functional-step-half-locked",
        wrong="the lock of a functional step ends with the reading of gradients",
        place="rpc.optimizer:_FunctionalLocalOptimizer.step",
        old="        self.optim.step([",
        new="    self.optim.step([",
    ),
    # -- references to nothing, and to what is gone
    Mutant(
        name="fork-comes-home-to-nothing",
        wrong="who brings a reference home whose value will not come waits for ever",
        place="rpc.rref_owners:OwnerTables.get_or_create_owner_rref",
        old="ended = OVER if self._session.destroyed else self._ended.get(rref_id)",
        new="ended = OVER if self._session.destroyed else None",
        origin="blind",
    ),
    Mutant(
        name="fetch-of-what-never-came",
        wrong="who asks for a value whose creation has failed waits for ever",
        place="rpc.rref_owners:OwnerTables.get_owner_rref",
        old="            ended = self._ended.get(rref_id)\n",
        new="            pass\n",
    ),
    Mutant(
        name="new-process-asked-for-the-old",
        wrong="a new process is asked for the values of the one that has ended",
        place="rpc.rref_users:UserTables.process_ended",
        old="users += [user for user in confirmed if user is not None]",
        new="pass",
        origin="blind",
    ),
    Mutant(
        name="busy-threads-count-as-idle",
        wrong="all threads count as idle, whatever they do",
        place="rpc.agent:RpcAgent.get_metrics",
        old="str(self.pool.size - self.pool.busy)",
        new="str(self.pool.size)",
        origin="blind",
    ),
    Mutant(
        name="calls-and-requests-mixed-up",
        wrong="the counters of calls that are made and of requests that are served are mixed up",
        place="rpc.agent:RpcAgent.get_metrics",
        old='"agent.server_active_calls": str(self._in_flight.served)',
        new='"agent.server_active_calls": str(self._in_flight.made)',
    ),
    # -- texts
    Mutant(
        name="text-not-read",
        wrong="the text of an error is not read as PyTorch reads it",
        place="rpc.serialization:handle_exception",
        old='text = value.msg.encode("utf-8").decode("unicode_escape")',
        new="text = value.msg",
        origin="blind",
    ),
    Mutant(
        name="error-in-ascii",
        wrong="the error that a function raised is told in ASCII",
        place="rpc.serialization:capture_exception",
        old='text = f"On {info}:\\n{error!r}\\n{frames}"',
        new='text = f"On {info}:\\n{error!a}\\n{frames}"',
    ),
    Mutant(
        name="unheard-release-goes-no-further",
        wrong="where a worker does not hear of a release, those behind it are not told",
        place="autograd.container:_Reporter.__call__",
        old="_could_not_release(self._worker_id, future.error)\n",
        new="_could_not_release(self._worker_id, future.error)\n        return\n",
    ),
)
