"""Groups that form, end and form again, on the same processes, and what is left between them."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 100
MUTANTS = (
    # -- a second group ---------------------------------------------------------------------
    Mutant(
        name="groups-meet-in-one-store",
        wrong="the second group of the same processes meets where the first one has met",
        place="rpc.init:init_rpc",
        old="    state.init_count += 1\n",
        new="",
    ),
    Mutant(
        name="references-outlive-their-group",
        wrong="RRefs of a group that is over are those of the next one: nothing is sent for them",
        place="worker:Worker.reset_agent",
        old="    self.rref_context = None",
        new="    pass",
    ),
    Mutant(
        name="gathers-counted-through-groups",
        wrong="one worker goes on counting gathers where it left off in its last group",
        place="rpc.all_gather:_init_rpc_states",
        old="        state.gather_counts.clear()\n",
        new="        if agent.info.id != 1:\n            state.gather_counts.clear()\n",
    ),
    Mutant(
        name="contexts-made-anew",
        wrong="the second init begins with another container, whose ids were given out before",
        place="autograd.api:_init",
        old="    if worker.container is None",
        new="    if worker.container is None or worker.agent is None",
    ),
    Mutant(
        name="ids-begin-again",
        wrong="ids of RRefs begin at nothing in each group, while references of the last are there",
        place="rpc.rref_session:RRefSession.__init__",
        old="worker.locals.setdefault(\n        _IDS, itertools.count(worker.incarnation << PROCESS_ID_BITS)\n    )",
        new="itertools.count(worker.incarnation << PROCESS_ID_BITS)",
    ),
    Mutant(
        name="left-without-a-word",
        wrong="an agent that ends keeps its place in the network",
        place="rpc.agent:RpcAgent.shutdown",
        old="    self._world.detach(self._group, self.info.id)\n",
        new="",
        needs="Q",
    ),
    Mutant(
        name="limit-of-the-first-group",
        wrong="the time limit that was set in one group is that of the next",
        place="rpc.agent:RpcAgent.__init__",
        old="    self.rpc_timeout_s = seconds(rpc_timeout_s)\n",
        new="    self.rpc_timeout_s = worker.locals.setdefault('limit', rpc_timeout_s)\n",
        unseen="a program's groups have one time limit, and stories restore it",
    ),
    Mutant(
        name="dropped-without-deleting",
        wrong="references of a second group that are dropped are not deleted on their owners",
        place="rpc.rref_users:UserTables.schedule_del_user",
        old="    if self._session.destroyed:\n",
        new="    if self._session.destroyed or self._session.worker.rpc_state.init_count > 1:\n",
    ),
    Mutant(
        name="orphans-kept",
        wrong="a worker that leaves at once keeps the contexts of others, which nobody can release",
        place="autograd.container:DistAutogradContainer.group_left",
        old="            self._release(context_id)\n",
        new="            pass\n",
    ),
    Mutant(
        name="own-contexts-released",
        wrong="a worker that leaves at once releases its own contexts, which may be in use",
        place="autograd.container:DistAutogradContainer.group_left",
        old="        if context_id >> LOCAL_ID_BITS != self.worker_id:\n            self._release(context_id)\n",
        new="        self._release(context_id)\n",
        unseen="no context is open while its trainer's group ends",
    ),
    Mutant(
        name="users-not-forgotten",
        wrong="whoever waits for a value as its owner leaves waits for ever",
        place="rpc.rref_context:RRefContext.destroy_instance",
        old="        owner.set_error(RpcError(OVER))\n",
        new="        pass\n",
        needs="Q",
    ),
    Mutant(
        name="early-fetch-not-told",
        wrong="whoever asked for a value before its creation, which will not come, is not told",
        place="rpc.rref_context:RRefContext.destroy_instance",
        old="        future.try_fail(RpcError(OVER))\n",
        new="        pass\n",
        needs="Q",
        unseen="no campaign has ended a group so far while such a question waited",
    ),
    # -- joining and barriers ---------------------------------------------------------------
    Mutant(
        name="join-counts-once",
        wrong="a group ends after one round of counts, which were read at different moments",
        place="rpc.in_flight:GroupJoin.wait",
        old="elif made == before:",
        new="elif made >= 0:",
    ),
    Mutant(
        name="leader-is-worker-0",
        wrong="the leader of a gather is the smallest worker of the group, member or not",
        place="rpc.all_gather:_gather",
        old="    leader_name = names[0]\n",
        new="    leader_name = state.all_worker_names[0]\n",
    ),
    Mutant(
        name="members-not-told",
        wrong="a leader waits for the whole group, whoever takes part",
        place="rpc.all_gather:_participants",
        old="tuple(sorted(set(names))) if names else state.all_worker_names",
        new="tuple(sorted(set(names))) if names and len(names) != 2 else state.all_worker_names",
    ),
    Mutant(
        name="failed-gather-left-behind",
        wrong="a gather whose time is up stays on the workers that gave it up",
        place="rpc.all_gather:_gather",
        old="            state.gathers.pop(sequence_id, None)\n",
        new="            if gather.proceed_signal.is_set():\n                state.gathers.pop(sequence_id, None)\n",
    ),
    Mutant(
        name="gather-over-and-begun-again",
        wrong="a leader that has given a gather up begins it anew for whoever comes late",
        place="rpc.all_gather:_gather_to_leader",
        old="            if state.gather_counts.get(key, 0) > number:\n",
        new="            if False:\n",
    ),
    Mutant(
        name="given-up-gathers-not-counted",
        wrong="a gather that was given up does not count: its number is given to the next one",
        place="rpc.all_gather:_gather",
        old="        return gather.gathered_objects\n",
        new="        return gather.gathered_objects\n    except RuntimeError:\n"
        "        state.gather_counts[key] = number\n        raise\n",
    ),
    Mutant(
        name="late-broadcast-answers-the-next",
        wrong="who gave a gather up and is told of it late raises",
        place="rpc.all_gather:_broadcast_to_followers",
        old="        if gather is None:  # given up already: its caller has an error\n            return\n",
        new="        if gather is None:\n            raise AssertionError('no such gather')\n",
    ),
    # -- profiles of servers ------------------------------------------------------------------
    Mutant(
        name="outer-profile-misses-inner",
        wrong="a request within two profiles belongs to the inner one alone",
        place="rpc.server_profiling:profiled_request",
        old="    for profile in concerned:\n",
        new="    for profile in concerned[-1:]:\n",
    ),
    Mutant(
        name="outer-profile-ends-first",
        wrong="of profiles within each other the outermost is ended first",
        place="rpc.server_profiling:_disable_server_process_global_profiler",
        old="[]).pop()",
        new="[]).pop(0)",
    ),
    Mutant(
        name="second-profile-refused",
        wrong="a profile cannot begin within another one: it takes its place",
        place="rpc.server_profiling:_enable_server_process_global_profiler",
        old="    profiles.append(ServerProfile(config))\n",
        new="    profiles[:] = [*profiles[:-1], ServerProfile(config), ServerProfile(config)][-2:]\n",
    ),
    # -- gradient callbacks -------------------------------------------------------------------
    Mutant(
        name="callback-changes-nothing",
        wrong="what a gradient callback gives is not taken",
        place="autograd.context:DistAutogradContext.run_grad_callback_for_variable",
        old="                self._grads[variable] = replaced\n",
        new="                pass\n",
    ),
    Mutant(
        name="callback-adds",
        wrong="what a gradient callback gives is added to the gradient",
        place="autograd.context:DistAutogradContext.run_grad_callback_for_variable",
        old="self._grads[variable] = replaced\n",
        new="self._grads[variable] = grad + replaced\n",
    ),
    Mutant(
        name="callback-for-the-first-leaf",
        wrong="a gradient callback is given the gradient of the first leaf of the context",
        place="autograd.context:DistAutogradContext.run_grad_callback_for_variable",
        old="        grad = self._grads.get(variable)\n",
        new="        grad = next(iter(self._grads.values()), None)\n",
    ),
    Mutant(
        name="none-removes-the-gradient",
        wrong="a gradient callback that gives nothing removes the gradient",
        place="autograd.context:DistAutogradContext.run_grad_callback_for_variable",
        old="    if replaced is not None:\n",
        new="    if replaced is None:\n        self._grads[variable] = grad * 0\n    else:\n",
    ),
    Mutant(
        name="names-of-members-stale",
        wrong="who takes part in gathers does not change as workers enter and leave",
        place="rpc.dynamic_group:_update_group_membership",
        old="    rpc_state(worker).all_worker_names = agent.members.names\n",
        new="",
    ),
    # -- planted by somebody who had not seen this list ---------------------------------------
    Mutant(
        name="replies-through-the-pool",
        wrong="replies wait behind the handlers that wait for them: with a full pool nested calls hang",
        place="rpc.agent:RpcAgent.receive",
        old="""            self._runtime.spawn(
                self._calls.complete,
                call,
                message,
                name="reply",
                worker=self.worker,
                cause=message.number,
            )
""",
        new="""            self.pool.submit(message.number, "reply", self._calls.complete, call, message)
""",
        origin="blind",
    ),
    Mutant(
        name="init-counted-when-done",
        wrong="after an init_rpc that failed the next one meets in the same store",
        place="rpc.init:init_rpc",
        old="""    state.init_count += 1
    _init_rpc_backend(backend, store, name, rank, world_size, options)""",
        new="""    _init_rpc_backend(backend, store, name, rank, world_size, options)
    state.init_count += 1""",
        origin="blind",
    ),
    Mutant(
        name="taken-rank-told-to-one",
        wrong="of two workers of one rank the second gets an error, and all others wait for the group",
        place="rpc.rendezvous:gather_group",
        old='raise _reject(store, f"rank argument {rank} is taken by another worker of the group")',
        new='raise RuntimeError(f"rank argument {rank} is taken by another worker of the group")',
        origin="blind",
    ),
    Mutant(
        name="gathers-of-the-last-group",
        wrong="a new group goes on with the gathers of the last one, in which others were",
        place="rpc.all_gather:_init_rpc_states",
        old="        state.gather_counts.clear()\n",
        new="",
        origin="blind",
    ),
    Mutant(
        name="names-in-order-of-ranks",
        wrong="a gather of all by name and one of everybody do not meet where names do not sort as "
        "ranks do",
        place="rpc.worker_info:Membership.__init__",
        old="self.names = tuple(sorted(self.by_name))",
        new="self.names = tuple(self.by_name)",
        origin="blind",
    ),
    Mutant(
        name="remaining-read-before-turn",
        wrong="a worker that enters while another one waits for its turn to leave is struck off",
        place="rpc.dynamic_group:leave_group",
        old="""    with _turn(store):
        remaining = tuple(m for m in agent.get_worker_infos() if m != info)
""",
        new="""    remaining = tuple(m for m in agent.get_worker_infos() if m != info)
    with _turn(store):
""",
        needs="PRT",
        origin="blind",
    ),
    Mutant(
        name="sparse-on-dense-refused",
        wrong="a sparse gradient after a dense one of the same variable is an error",
        place="autograd.accumulate:accumulate_grad",
        old="if old.is_sparse and not new.is_sparse:",
        new="if old.is_sparse != new.is_sparse:",
        origin="blind",
    ),
    Mutant(
        name="refused-worker-keeps-its-agent",
        wrong="a worker that could not tell all others of itself keeps its agent, and can enter no group",
        place="rpc.dynamic_group:join_group",
        old="worker.reset_agent()",
        new="pass",
    ),
    Mutant(
        name="names-of-joined-workers-kept-old",
        wrong="gathers know nothing of workers that entered or left the group",
        place="rpc.dynamic_group:_update_group_membership",
        old="rpc_state(worker).all_worker_names = agent.members.names",
        new="pass",
    ),
    Mutant(
        name="one-quiet-round-is-enough",
        wrong="a group ends with the first round that finds no call, while a chain goes on behind it",
        place="rpc.in_flight:GroupJoin.wait",
        old="elif made == before:",
        new="elif True:",
    ),
    Mutant(
        name="due-deletes-are-not-counted",
        wrong="a group ends while owners are still to be told of references that are gone",
        place="rpc.in_flight:InFlight.count",
        old=" + (0 if references is None else references.to_be_told)",
        new="",
        unseen="a delete that is due is sent at the same moment; no two rounds of a group's end lie before it",
    ),
    Mutant(
        name="result-goes-to-five",
        wrong="the result of a gather goes to the first five workers behind the leader",
        place="rpc.all_gather:_gather",
        old="names[1:]",
        new="names[1:6]",
    ),
)
