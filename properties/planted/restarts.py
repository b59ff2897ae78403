"""State of a process that has ended, kept or used by others beyond that, and ids that a new process uses again."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 208
MUTANTS = (
    # -- references -------------------------------------------------------------------------------
    Mutant(
        name="reference-to-the-old-owner-is-used",
        wrong="confirmed references to values of a process that has ended are fetched from the next one",
        place="rpc.rref_users:UserTables.process_ended",
        old="confirmed = [reference() for reference in self.confirmed_users.values()]",
        new="confirmed: list[UserRRef | None] = []",
        needs="K",
        origin="blind",
    ),
    Mutant(
        name="dead-reference-is-handed-on",
        wrong="a reference to a value of a process that has ended can be given to a third worker",
        place="rpc.rref_context:RRefContext.prepare_child_fork",
        old="    rref.check()\n",
        new="    if isinstance(rref, OwnerRRef) or 'has ended' not in str(rref._failure):\n        rref.check()\n",
        needs="K",
    ),
    Mutant(
        name="dead-reference-is-fetched",
        wrong="whoever fetches the value of a process that has ended asks the next one",
        place="rpc.fetch:fetch",
        old="    user.check()\n",
        new="    if 'has ended' not in str(user._failure):\n        user.check()\n",
        needs="K",
    ),
    Mutant(
        name="process-of-the-rank-is-there",
        wrong="a process that has ended counts as there when the next one of its rank is",
        place="rpc.agent:RpcAgent.is_there",
        old="== incarnation",
        new="is not None",
        needs="K",
    ),
    Mutant(
        name="late-reply-to-the-process-before",
        wrong="references in the answer to a call of a process that has ended stay with their owners",
        place="rpc.call_table:CallTable.is_late",
        old=" or id >> PROCESS_ID_BITS < self._worker.incarnation",
        new="",
        needs="K",
        unseen="shows in a few of a thousand scenarios about restarts: in some campaigns within 30 s, not in all",
    ),
    # -- contexts ---------------------------------------------------------------------------------
    Mutant(
        name="never-had-it-counts-as-heard",
        wrong="a new process that never had a context answers its release as if it had passed it on",
        place="autograd.container:DistAutogradContainer.release_context_if_present",
        old="return context_id not in self._missed",
        new="return True",
        needs="K",
        origin="blind",
    ),
    Mutant(
        name="never-had-it-ends-there",
        wrong="the answer that a new process never had a context is taken for one that has passed it on",
        place="autograd.container:_Reporter.__call__",
        old="    elif CleanupAutogradContextResp.from_message(future.raw_value()).passed_on:\n        return\n",
        new="    else:\n        return\n",
        needs="K",
    ),
    Mutant(
        name="release-under-way-is-lost-with-its-process",
        wrong="who had not answered a release when its process ended is taken for one that passed it on",
        place="autograd.container:DistAutogradContainer.process_ended",
        old="unheard = [id for id, receiver in list(self._unheard) if receiver == worker_id]",
        new="unheard: list[ContextId] = []",
        needs="K",
    ),
    Mutant(
        name="contexts-of-the-last-process-stay",
        wrong="of a rank that ends again only the contexts of processes before the last are released",
        place="autograd.container:DistAutogradContainer.process_ended",
        old="last = first + ((incarnation + 1) << PROCESS_ID_BITS)",
        new="last = first + (max(incarnation, 1) << PROCESS_ID_BITS)",
        needs="K",
    ),
    Mutant(
        name="contexts-of-the-next-process-are-released",
        wrong="the news of the end of a process releases the contexts that the next one has made",
        place="autograd.container:DistAutogradContainer.process_ended",
        old="last = first + ((incarnation + 1) << PROCESS_ID_BITS)",
        new="last = first + (1 << LOCAL_ID_BITS)",
        needs="K",
    ),
    Mutant(
        name="graph-of-the-old-process-stays",
        wrong="what was sent to a process that has ended stays a part of the graph",
        place="autograd.container:DistAutogradContainer._do_without",
        old="        context.drop_send_functions_to(worker_id)\n",
        new="        pass\n",
        needs="K",
    ),
    # -- ids --------------------------------------------------------------------------------------
    Mutant(
        name="calls-numbered-from-the-start",
        wrong="a new process gives its calls the numbers that the one before has used",
        place="rpc.call_table:CallTable.__init__",
        old="first = worker.incarnation << PROCESS_ID_BITS",
        new="first = 0",
        needs="K",
    ),
    Mutant(
        name="references-numbered-from-the-start",
        wrong="a new process gives its references the ids that the one before has used",
        place="rpc.rref_session:RRefSession.__init__",
        old="worker.incarnation << PROCESS_ID_BITS",
        new="0",
        needs="K",
    ),
    Mutant(
        name="messages-numbered-from-the-start",
        wrong="a new process gives its autograd messages the ids that the one before has used",
        place="autograd.container:DistAutogradContainer.__init__",
        old="self._message_ids = IdSource(self.worker_id, worker.incarnation)",
        new="self._message_ids = IdSource(self.worker_id)",
        needs="K",
    ),
    Mutant(
        name="contexts-numbered-from-the-start",
        wrong="a new process gives its contexts the ids that the one before has used",
        place="autograd.container:DistAutogradContainer.__init__",
        old="self._context_ids = IdSource(self.worker_id, worker.incarnation)",
        new="self._context_ids = IdSource(self.worker_id)",
        needs="K",
    ),
)
