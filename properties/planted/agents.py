"""Agents, futures, timeouts, retries, and the end of a group."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 50
_COUNTING = """\
        self._store.barrier(f"join/{round}/quiet", members, limit)
        active, ever_made = in_flight.count(), in_flight.ever_made
        self._store.add(f"join/{round}/active", active)
"""
_COUNTING_TOO_EARLY = """\
        active, ever_made = in_flight.count(), in_flight.ever_made
        before = 0
        self._store.barrier(f"join/{round}/quiet", members, limit)
        self._store.add(f"join/{round}/active", active)
        ever_made = 0
"""
MUTANTS = (
    # -- futures ----------------------------------------------------------------------------
    Mutant(
        name="raising-callback-stops-the-others",
        origin="i52132, i52166, p53212, i58239, p58382",
        wrong="a callback that raises keeps the others of its future from being called",
        place="future:Future._call",
        old='        logger.exception("a callback of %r raised", self)',
        new="        raise",
    ),
    Mutant(
        name="future-completed-twice",
        wrong="a value that comes second replaces the first, and callbacks are called again",
        place="future:Future.try_complete",
        old="        self._open.pop()\n",
        new="        self._open\n",
        needs="TO",
    ),
    Mutant(
        name="one-waiter-woken",
        wrong="of several tasks that wait for a future only one is woken",
        place="future:Future._tell",
        old="    while waiting:",
        new="    if waiting:",
    ),
    Mutant(
        name="one-callback-called",
        wrong="of several callbacks of a future only the first is called",
        place="future:Future._tell",
        old="    while callbacks:",
        new="    if callbacks:",
    ),
    Mutant(
        name="late-callback-lost",
        wrong="a callback that is added to a complete future is never called",
        place="future:Future.add_callback",
        old="        self._call(callback)\n        return\n    callbacks",
        new="        return\n    callbacks",
    ),
    Mutant(
        name="callbacks-before-waiters-see-it",
        wrong="callbacks are called before the future says that it is complete",
        place="future:Future.try_complete",
        old="    self.is_done = True\n",
        new="    self.is_done = False\n",
    ),
    Mutant(
        name="error-read-as-value",
        wrong="reading a future that failed gives its value, None",
        place="future:Future.raw_value",
        old="if self.error is not None:",
        new="if False:",
    ),
    Mutant(
        name="remote-exception-read-as-value",
        wrong="an exception that travelled as a value is not raised",
        place="future:Future.value",
        old="if self.unwrap is None:",
        new="if True:",
    ),
    Mutant(
        name="error-not-handed-on",
        wrong="a future that follows another one does not take over its error",
        place="future:Future.complete_like",
        old="if other.error is not None:",
        new="if False:",
    ),
    Mutant(
        name="collected-too-early",
        wrong="a list of futures counts as complete when all but one are",
        place="future:collect_all",
        old="if next(arrivals) == len(futures):",
        new="if next(arrivals) >= max(1, len(futures) - 1):",
    ),
    Mutant(
        name="collected-never",
        wrong="a list of several futures never counts as complete",
        place="future:collect_all",
        old="if next(arrivals) == len(futures):",
        new="if next(arrivals) == len(futures) ** 2:",
    ),
    Mutant(
        name="callback-error-lost",
        wrong="an error in a callback whose result is a future leaves that one incomplete",
        place="future:Future.then_async",
        old="            child.try_fail(error)\n",
        new="            pass\n",
    ),
    # -- agents -----------------------------------------------------------------------------
    Mutant(
        name="no-timeout",
        origin="i25531, p28392, p29601",
        wrong="a call whose timeout was given never expires",
        place="rpc.call_table:CallTable.begin",
        old="if timeout_s != NO_RPC_TIMEOUT:",
        new="if timeout_s == getattr(self._worker.agent, 'rpc_timeout_s', None):",
        needs="PLK",
    ),
    Mutant(
        name="no-default-timeout",
        origin="i25531, p28392, p29601",
        wrong="no call ever expires",
        place="rpc.call_table:CallTable.begin",
        old="if timeout_s != NO_RPC_TIMEOUT:",
        new="if False:",
        needs="PLKO",
    ),
    Mutant(
        name="call-completed-twice",
        origin="p38931, i39082",
        wrong="a reply does not take its call out of the table: it may be completed again",
        place="rpc.call_table:CallTable.take",
        old="call = self._calls.pop(id, None)",
        new="call = self._calls.get(id)",
        needs="PO",
    ),
    Mutant(
        name="timer-not-cancelled",
        origin="p38931, i39082",
        wrong="a call that has been answered times out all the same",
        place="rpc.call_table:CallTable.take",
        old="        call.timer.cancel()",
        new="        pass",
    ),
    Mutant(
        name="completed-under-lock",
        origin="p38929, p52749",
        wrong="callbacks of a call run with the agent's lock held",
        place="rpc.call_table:CallTable._finish",
        old="            with on_streams(message.streams):",
        new="            with self._in_flight.lock, on_streams(message.streams):",
    ),
    Mutant(
        name="handlers-in-the-network-thread",
        origin="p38930",
        wrong="requests are handled by whatever brings them",
        place="rpc.agent:RpcAgent.receive",
        old="self.pool.submit(message.number, message.type._name_, self._handle, message)",
        new="self._handle(message)",
    ),
    Mutant(
        name="replies-in-the-network-thread",
        origin="p38930",
        wrong="callbacks of replies run in whatever brings them",
        place="rpc.agent:RpcAgent.receive",
        old="self._runtime.spawn(\n"
        "                self._calls.complete,\n"
        "                call,\n"
        "                message,\n"
        '                name="reply",\n'
        "                worker=self.worker,\n"
        "                cause=message.number,\n"
        "            )",
        new="self._calls.complete(call, message)",
    ),
    Mutant(
        name="quiet-before-callbacks",
        origin="p58753",
        wrong="a call counts as over before its callbacks, which may make calls, have run",
        place="rpc.call_table:CallTable._finish",
        old="    try:\n        if error is not None:\n            call.future.try_fail(error)\n"
        "        elif message is not None:\n            with on_streams(message.streams):\n"
        "                call.future.try_complete(message)\n"
        "    finally:\n"
        "        context = self._worker.rref_context\n"
        "        if context is not None and context.leaving:\n"
        "            context.give_back_users()\n"
        "        # After the callbacks, which may have made calls: join must not see a gap.\n"
        "        self._in_flight.made_one_less()",
        new="    self._in_flight.made_one_less()\n"
        "    if error is not None:\n        call.future.try_fail(error)\n"
        "    elif message is not None:\n        with on_streams(message.streams):\n"
        "            call.future.try_complete(message)",
        needs="QR",
    ),
    Mutant(
        name="call-not-counted",
        wrong="a call that is made does not count as active",
        place="rpc.call_table:CallTable.begin",
        old="        in_flight.made += 1\n",
        new="",
    ),
    Mutant(
        name="call-stays-active",
        wrong="a call that failed stays counted as active: nobody can leave the group",
        place="rpc.call_table:CallTable._finish",
        old="        self._in_flight.made_one_less()",
        new="        if error is None:\n            self._in_flight.made_one_less()",
    ),
    Mutant(
        name="request-not-counted",
        wrong="a request that is handled does not count as active",
        place="rpc.agent:RpcAgent.receive",
        old="        self._in_flight.served += 1\n",
        new="        pass\n",
    ),
    Mutant(
        name="request-stays-active",
        wrong="a request that was answered with an error stays counted as active",
        place="rpc.agent:RpcAgent._reply",
        old="        self._in_flight.served_one_less()",
        new="        if error is None:\n            self._in_flight.served_one_less()",
    ),
    Mutant(
        name="quiet-not-told",
        wrong="who waits for silence is not told when the last request is answered",
        place="rpc.in_flight:InFlight.served_one_less",
        old="            self._quiet.notify_all()",
        new="            pass",
        needs="RT",
    ),
    Mutant(
        name="reply-to-the-wrong-call",
        wrong="replies are matched to calls by the order in which they come",
        place="rpc.call_table:CallTable.take",
        old="call = self._calls.pop(id, None)",
        new="call = self._calls.pop(min(self._calls, default=id), None)",
        needs="R",
    ),
    Mutant(
        name="exception-taken-for-a-reply",
        wrong="a reply that is an exception completes its call as if it were a value",
        place="rpc.call_table:CallTable.complete",
        old="if message.type == _EXCEPTION:",
        new="if False:",
    ),
    Mutant(
        name="all-calls-lost-with-a-peer",
        wrong="the loss of one peer fails the calls to all others",
        place="rpc.call_table:CallTable.peer_lost",
        old="if call.to == peer",
        new="if call.to != self._worker.id",
        needs="K",
    ),
    Mutant(
        name="calls-outlive-their-peer",
        wrong="calls to a peer whose connection broke wait for their timeout, or for ever",
        place="rpc.call_table:CallTable.peer_lost",
        old="            self.fail(call, RpcError(reason))",
        new="            pass",
        needs="K",
    ),
    Mutant(
        name="failed-send-keeps-its-call",
        wrong="a call that could not be sent is never failed",
        place="rpc.agent:RpcAgent.send",
        old="            self._calls.fail(taken, RpcError(str(error)))",
        new="            pass",
        needs="EK",
    ),
    Mutant(
        name="thread-not-given-back",
        wrong="the pool counts threads that have ended as busy",
        place="rpc.task_pool:TaskPool._run",
        old="                self.busy -= 1",
        new="                pass",
    ),
    Mutant(
        name="pool-forgets-who-waits",
        wrong="work that waits for a thread is never started",
        place="rpc.task_pool:TaskPool._run",
        old="            cause, name, *work = following\n            self._runtime.spawn("
        "self._run, *work, name=name, worker=self._worker, cause=cause)",
        new="            pass",
    ),
    Mutant(
        name="pool-without-bound",
        wrong="more work runs at a time than there are threads",
        place="rpc.task_pool:TaskPool.submit",
        old="if self.busy >= self.size:",
        new="if False:",
    ),
    Mutant(
        name="callee-error-without-its-worker",
        wrong="the error of a handler does not say which worker it came from",
        place="rpc.request_callback:RequestCallback.handle_error",
        old='f"Error on Node {self.worker.id}: {error_text(error)}"',
        new="error_text(error)",
    ),
    Mutant(
        name="exception-swallowed",
        wrong="a function that raised returns None",
        place="rpc.serialization:run_function",
        old="        return capture_exception(worker, error)\n",
        new="        return None\n",
    ),
    Mutant(
        name="exception-without-its-worker",
        wrong="the exception of a function does not say which worker it came from",
        place="rpc.serialization:capture_exception",
        old='f"On {info}:\\n{error!r}\\n{frames}"',
        new='f"{error!r}"',
    ),
    Mutant(
        name="async-function-not-awaited",
        wrong="the future of an asynchronous function fails silently",
        place="rpc.request_callback:RequestCallback._run_python_udf",
        old="                value.try_fail(RpcError(python_error_text(error)))",
        new="                pass",
    ),
    # -- retries ----------------------------------------------------------------------------
    Mutant(
        name="retry-sleeps",
        origin="p32602, p33365",
        wrong="a retry sleeps through its delay and cannot be called off",
        place="rpc.retries:Retried._schedule",
        old="    self._timer = runtime.call_later(wait_s, self._due)",
        new="    runtime.sleep(wait_s)\n    self._due()",
        needs="QE",
    ),
    Mutant(
        name="retry-after-shutdown",
        origin="i35815, p35554",
        wrong="a retry is scheduled although the agent has stopped",
        place="rpc.retries:Retried.attempt",
        old="elif not agent.is_running:",
        new="elif False:",
        needs="QE",
        unseen="the next attempt fails at once, since the agent does not run",
    ),
    Mutant(
        name="retry-outlives-shutdown",
        origin="i35815, p35554",
        wrong="calls that wait to be sent again are not ended by shutdown",
        place="rpc.agent:RpcAgent.shutdown",
        old="        retry.stop()",
        new="        pass",
        needs="QE",
        unseen="only handlers of the worker that has left wait for it",
    ),
    Mutant(
        name="retries-never-end",
        wrong="a call that always fails is sent again for ever",
        place="rpc.retries:Retried.attempt",
        old="number == self._last and number < self._most:",
        new="number == self._last:",
        needs="LE",
    ),
    Mutant(
        name="never-retried",
        wrong="a call that failed once is given up",
        place="rpc.retries:Retried.attempt",
        old="elif number == self._last and number < self._most:",
        new="elif False:",
        needs="LE",
    ),
    Mutant(
        name="silence-is-no-reason",
        wrong="what is lost is sent again only after a whole timeout",
        place="rpc.retries:Retried.attempt",
        old="if number < self._most else None",
        new="if False else None",
        needs="L",
    ),
    Mutant(
        name="other-copies-stay-open",
        wrong="copies of an answered request are waited for until they time out",
        place="rpc.retries:Retried._succeed",
        old="    for id in list(self._open.values()):\n",
        new="    for id in ():\n",
        needs="L",
        unseen="they time out by themselves, and nothing is said of how soon calls must end",
    ),
    Mutant(
        name="sent-on-after-the-answer",
        wrong="a late copy is sent although the request was answered",
        place="rpc.retries:Retried._late",
        old="not self.future.is_done and ",
        new="",
        needs="X",
        unseen="copies of an answered request are ended with it, so none of them is late",
    ),
    # -- the end of a group -----------------------------------------------------------------
    Mutant(
        name="join-for-oneself",
        origin="i23948, i27777, i26984",
        wrong="a worker leaves when it is quiet itself, whatever its peers still do",
        place="rpc.in_flight:GroupJoin.wait",
        old='if self._store.get(f"join/{round}/active"):\n            before = None',
        new="if True:\n            return",
        needs="RQ",
    ),
    Mutant(
        name="join-counts-too-early",
        origin="p38932, p38933",
        wrong="calls are counted once, and before all workers have been quiet",
        place="rpc.in_flight:GroupJoin.wait",
        old=_COUNTING,
        new=_COUNTING_TOO_EARLY,
        needs="RQ",
    ),
    Mutant(
        name="join-counts-own-calls-only",
        wrong="requests that are being handled do not keep anybody from leaving",
        place="rpc.in_flight:GroupJoin.wait",
        old="active, ever_made = in_flight.count(),",
        new="active, ever_made = in_flight.made,",
        needs="RQ",
        unseen="each worker is quiet when it is asked, so this is about requests that come between "
        "two looks: who made them counts them, unless he has given them up on the way, and such a "
        "request may as well come after the second look, when nobody counts it",
    ),
    Mutant(
        name="join-does-not-wait",
        wrong="a worker that leaves does not wait for its own calls",
        place="rpc.in_flight:InFlight.is_quiet",
        old="return self.count() == 0",
        new="return True",
        needs="RQ",
    ),
    Mutant(
        name="shutdown-without-barrier",
        wrong="shutdown does not wait until all workers have come to it",
        place="rpc.api:shutdown",
        old="        replaceable(worker, _wait_all_workers)(timeout)\n",
        new="",
        needs="P",
    ),
    Mutant(
        name="shutdown-forgets-pending-calls",
        wrong="calls that are pending when an agent stops never complete",
        place="rpc.agent:RpcAgent.shutdown",
        old='        self._calls.fail(call, RpcError("RPC agent is shutting down"))',
        new="        pass",
        needs="Q",
    ),
    Mutant(
        name="gather-swallows-errors",
        origin="i45082, p45088",
        wrong="a gather whose followers were not reached gives its result all the same",
        place="rpc.all_gather:_broadcast",
        old="if errors:",
        new="if False:",
        needs="OK",
    ),
    Mutant(
        name="gather-complete-too-early",
        wrong="a gather is complete when one worker is missing",
        place="rpc.all_gather:_gather_to_leader",
        old="complete = len(gather.gathered_objects) == len(names)",
        new="complete = len(gather.gathered_objects) >= len(names) - 1",
        needs="R",
    ),
    Mutant(
        name="gather-not-numbered",
        wrong="every gather of a group has the same number",
        place="rpc.all_gather:_gather",
        old="state.gather_counts[key] = number + 1",
        new="state.gather_counts[key] = number",
        needs="R",
    ),
    Mutant(
        name="followers-not-waited-for",
        wrong="the leader of a gather goes on before its followers have heard",
        place="rpc.all_gather:_broadcast",
        old="            call.wait()\n",
        new="            pass\n",
        needs="O",
    ),
)
