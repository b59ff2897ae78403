"""Time limits that change, back-off that is cut short, and connections that break."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 110
MUTANTS = (
    Mutant(
        name="default-limit-is-fixed",
        wrong="a default time limit that is set has no effect on calls",
        place="rpc.current:set_rpc_timeout",
        old="    agent.rpc_timeout_s = float(seconds(timeout))\n",
        new="    agent.told_timeout_s = float(timeout)\n",
    ),
    Mutant(
        name="limit-in-milliseconds",
        wrong="a default time limit is taken for milliseconds where it is large",
        place="rpc.current:set_rpc_timeout",
        old="agent.rpc_timeout_s = float(seconds(timeout))",
        new="agent.rpc_timeout_s = float(timeout) / (1000 if timeout >= 180 else 1)",
    ),
    Mutant(
        name="no-limit-is-the-default",
        wrong="a default limit of 0 is the default that there was before",
        place="rpc.current:set_rpc_timeout",
        old="    agent.rpc_timeout_s = float(seconds(timeout))\n",
        new="    agent.rpc_timeout_s = float(timeout) or agent.rpc_timeout_s\n",
    ),
    Mutant(
        name="new-limit-for-old-calls",
        wrong="the error of a call that is late names the limit that is the default by then",
        place="rpc.call_table:CallTable._expire",
        old="timeout_error(call.timeout_s)",
        new="timeout_error(getattr(self._worker.agent, 'rpc_timeout_s', 0) or call.timeout_s)",
    ),
    Mutant(
        name="creations-without-a-limit",
        wrong="a creation has no time limit unless it is given one",
        place="rpc.rref_creation:_send",
        old="    timeout_s=timeout_s,\n",
        new="    timeout_s=max(timeout_s, 0.0),\n",
    ),
    Mutant(
        name="longest-limit-wins",
        wrong="a call with a time limit of its own has the default if that is longer",
        place="rpc.agent:RpcAgent.send",
        old="    if timeout_s == UNSET_RPC_TIMEOUT:\n",
        new="    if timeout_s == UNSET_RPC_TIMEOUT or 0 < timeout_s < self.rpc_timeout_s:\n",
    ),
    # -- back-off ---------------------------------------------------------------------------
    Mutant(
        name="back-off-fails-late",
        wrong="who waits for a request that is stopped in its back-off is not told",
        place="rpc.retries:Retried.stop",
        old="    self.future.try_fail(self._error)\n",
        new="    pass\n",
        needs="QE",
        unseen="who waits is on the worker that leaves; its callers see their connection close",
    ),
    Mutant(
        name="resend-after-the-end",
        wrong="the timer of a request in its back-off goes on when that is stopped",
        place="rpc.retries:Retried.stop",
        old="        timer.cancel()\n",
        new="        pass\n",
        needs="QE",
        unseen="what the timer calls finds that the resend was called off",
    ),
    Mutant(
        name="refused-resend-is-silent",
        wrong="a resend that cannot be sent leaves its request open for ever",
        place="rpc.retries:Retried._send_another",
        old="        self.future.try_fail(failure)\n",
        new="        pass\n",
        needs="QE",
        unseen="a retry is stopped before its agent refuses to send: only threads come in between",
    ),
    Mutant(
        name="back-off-while-shut-down",
        wrong="a copy that fails as its agent ends begins another back-off",
        place="rpc.retries:Retried.attempt",
        old="        elif not agent.is_running:\n            self.future.try_fail(error)\n",
        new="        elif False:\n            pass\n",
        needs="QEK",
        unseen="a back-off that begins on an agent that has ended is stopped at once",
    ),
    # -- connections that break ----------------------------------------------------------------
    Mutant(
        name="reset-is-an-end",
        wrong="a broken connection is taken for the end of the process behind it",
        place="rpc.agent:RpcAgent.peer_lost",
        old="    if ended is None or not self.is_running:\n",
        new="    ended = ended or 0\n    if not self.is_running:\n",
        needs="E",
    ),
    Mutant(
        name="write-error-escapes",
        wrong="a reply that cannot be written for a broken connection is answered by another one",
        place="rpc.agent:RpcAgent._reply",
        old="        except ConnectionError:\n            raise\n",
        new="",
        needs="EKQ",
        unseen="the second answer fails as the first, and nobody is there to read it",
    ),
    Mutant(
        name="unsent-reply-keeps-its-forks",
        wrong="references in a reply that was not sent are not taken back",
        place="rpc.agent:RpcAgent._answer",
        old="    except BaseException:\n        take_back(self.worker, reply.dst, reply)\n        raise\n",
        new="    except BaseException:\n        raise\n",
    ),
    Mutant(
        name="failed-write-keeps-its-forks",
        wrong="references in a request whose connection failed are not taken back",
        place="rpc.agent:RpcAgent.send",
        old="        take_back(self.worker, to, message)\n",
        new="",
        needs="E",
    ),
)
