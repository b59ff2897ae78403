"""Errors where they are rare: what cannot be written or read, late, at once, and inside wrappers."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 120
MUTANTS = (
    Mutant(
        name="unreadable-creation-in-a-wrapper",
        wrong="an RRef whose creation, inside a wrapper, cannot be read is waited for for ever",
        place="rpc.request_callback:RequestCallback._abandon",
        old="        command = command.wrapped_command\n",
        new="        command = None\n",
    ),
    Mutant(
        name="refused-creation-not-told",
        wrong="who fetches the value of a creation whose function could not run waits for ever",
        place="rpc.request_callback:RequestCallback.process_rpc_with_errors",
        old="        return self._abandon(rpc, self.handle_error(error, type))\n",
        new="        return self.handle_error(error, type)\n",
    ),
    Mutant(
        name="late-result-unwritten",
        wrong="a result that comes late and cannot be written is never answered",
        place="rpc.replies:then",
        old="            result.try_fail(RpcError(error_text(failure)))\n",
        new="            pass\n",
    ),
    Mutant(
        name="late-error-unanswered",
        wrong="a future that fails after its function has returned is never answered",
        place="rpc.replies:then",
        old="            result.try_fail(error)\n",
        new="            pass\n",
    ),
    Mutant(
        name="result-unwritten-at-once",
        wrong="an error as a result is written ends the handler without its type",
        place="rpc.replies:then",
        old="            return failed(RpcError(error_text(failure)), runtime=future._runtime)\n",
        new="            return failed(RpcError(str(type(failure))), runtime=future._runtime)\n",
    ),
    Mutant(
        name="uncopyable-reply-unanswered",
        wrong="a reply with a tensor that cannot be copied is not answered at all",
        place="rpc.agent:RpcAgent._reply",
        old="            self._answer(request, _exception(error_text(failure)))\n",
        new="            del failure\n",
    ),
    Mutant(
        name="unreadable-answer-never-ends",
        wrong="a call whose answer cannot be read never ends",
        place="rpc.calls:_python_future",
        old="            result.try_fail(failure)\n",
        new="            pass\n",
    ),
    Mutant(
        name="unreadable-answer-keeps-references",
        wrong="references in a message that cannot be read are kept by whoever sent them",
        place="rpc.serialization:deserialize",
        old="        discard_references(worker, payload)\n",
        new="",
    ),
    Mutant(
        name="unwritten-result-keeps-forks",
        wrong="references before the part of a result that cannot be written stay forked",
        place="rpc.serialization:dump",
        old="        discard_forks(worker, pickler.forks)\n",
        new="",
    ),
    Mutant(
        name="first-fork-given-back",
        wrong="of several references in what cannot be written only the first is taken back",
        place="rpc.serialization:discard_forks",
        old="        for fork_data in forks:\n",
        new="        for fork_data in forks[:1]:\n",
    ),
    Mutant(
        name="late-failure-keeps-its-send",
        wrong="the send function of a reply that cannot be copied stays",
        place="rpc.discard:take_back",
        old="        if message.type in _AUTOGRAD and container is not None:\n",
        new="        if message.type == _AUTOGRAD[0] and container is not None:\n",
    ),
    Mutant(
        name="profiled-wrapper-not-opened",
        wrong="what a profiled call that was not sent has recorded is not taken back",
        place="rpc.discard:_unwrapped",
        old="    if message.type == MessageType.RUN_WITH_PROFILING_REQ:\n"
        "        return commands.RunWithProfilingReq.from_message(message).wrapped\n",
        new="    if message.type == MessageType.RUN_WITH_PROFILING_REQ:\n"
        "        return Message(MessageType.EXCEPTION, b'')\n",
    ),
    Mutant(
        name="exit-ends-a-late-thread",
        wrong="a function that wants to end its process ends the thread that serves it",
        place="rpc.serialization:run_function",
        old="except (SystemExit, KeyboardInterrupt) as error:",
        new="except KeyboardInterrupt as error:",
    ),
    Mutant(
        name="no-future-no-error",
        wrong="a function that has to return a future and does not is answered with what it returned",
        place="rpc.request_callback:RequestCallback._run_python_udf",
        old="if not call.is_async_execution or isinstance(result, RemoteException):",
        new="if not call.is_async_execution or not isinstance(result, Future):",
    ),
    Mutant(
        name="late-error-is-a-value",
        wrong="the error of a future that a function returned is given as its value",
        place="rpc.request_callback:RequestCallback._run_python_udf",
        old="                value.try_fail(RpcError(python_error_text(error)))\n",
        new="                value.try_complete(None)\n",
    ),
    Mutant(
        name="operator-error-unanswered",
        wrong="an operator of torch that raises is never answered",
        place="rpc.request_callback:RequestCallback._run_operator",
        old="        value.try_fail(RpcError(str(error)))\n",
        new="        pass\n",
    ),
    Mutant(
        name="unsent-creation-stays-pending",
        wrong="an RRef whose creation could not be sent waits to be confirmed",
        place="rpc.rref_creation:create_rref",
        old="        context.user_tables.discard_pending_user(user.fork_id)\n",
        new="",
    ),
    Mutant(
        name="unsent-own-creation-stays",
        wrong="an RRef of a worker's own whose creation could not be sent is kept",
        place="rpc.rref_creation:_remote_to_self",
        old="        context.owner_tables.del_fork_of_owner(owner.rref_id, owner.rref_id)\n",
        new="        pass\n",
    ),
    Mutant(
        name="unsent-call-is-in-flight",
        wrong="a call that could not be sent counts as one that is under way",
        place="rpc.call_table:CallTable.give_up",
        old="        self._in_flight.made_one_less()\n",
        new="",
    ),
    Mutant(
        name="failed-confirmation-runs-the-function",
        wrong="a function runs although its reference could not be confirmed",
        place="rpc.request_callback:RequestCallback._process",
        old="        if error is not None:\n",
        new="        if False:\n",
        needs="LEKQ",
        unseen="all copies of one request to register a fork have to be lost while the call that "
        "brought it goes through: a minute of a campaign under faults has no such scenario",
    ),
    Mutant(
        name="limit-in-whole-seconds",
        wrong="the error of a call whose time is up names its limit in whole seconds",
        place="rpc.errors:timeout_error",
        old="int(timeout_s * 1000)",
        new="int(timeout_s) * 1000",
    ),
    Mutant(
        name="unreadable-result-is-a-value",
        wrong="a result that lacks a name where it is read is the error as a value",
        place="rpc.serialization:deserialize",
        old="if kind == _OBJECT:",
        new="if kind == _TENSOR:",
    ),
    Mutant(
        name="chained-exception-keeps-frames",
        wrong="the frames of the exception behind one that is sent stay alive",
        place="rpc.serialization:capture_exception",
        old="link = link.__cause__ if link.__cause__ is not None else link.__context__",
        new="link = None",
    ),
)
