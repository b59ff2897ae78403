"""Messages that nobody needs, and messages that are missing without harm at once."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 62
MUTANTS = (
    # -- references -------------------------------------------------------------------------------
    Mutant(
        name="owner-told-of-its-own-forks",
        wrong="a user that its owner made tells the owner of itself all the same",
        place="rpc.rref_context:RRefContext.notify_owner_and_parent_of_fork",
        old="elif parent == rref.owner_id:",
        new="elif False:",
    ),
    Mutant(
        name="acceptance-twice",
        wrong="whoever sent a reference is told twice that it has arrived",
        place="rpc.rref_context:RRefContext._finish_fork_request",
        old="    self._accept(fork_id, parent)\n",
        new="    self._accept(fork_id, parent)\n    self._accept(fork_id, parent)\n",
    ),
    Mutant(
        name="owner-asked-to-accept",
        wrong="an owner that sent a reference is told that it has arrived, as users are",
        place="rpc.rref_context:RRefContext.notify_owner_and_parent_of_fork",
        old="        self.user_tables.add_confirmed_user(fork_id, rref)\n",
        new="        self.user_tables.add_confirmed_user(fork_id, rref)\n"
        "        self._accept(fork_id, parent)\n",
    ),
    Mutant(
        name="home-told-to-itself",
        wrong="an owner whose reference came back tells itself that it has arrived",
        place="rpc.rref_context:RRefContext._take_home",
        old="        self.owner_tables.del_fork_of_owner(rref_id, fork_id)\n",
        new="        self.owner_tables.del_fork_of_owner(rref_id, fork_id)\n"
        "        self._accept(fork_id, parent)\n",
    ),
    Mutant(
        name="deletion-doubled",
        wrong="an owner is told twice that a user is gone",
        place="rpc.rref_users:UserTables.del_user",
        old="        self._session.send_control(owner, RRefUserDelete(rref_id, fork_id, abandoned))\n",
        new="        self._session.send_control(owner, RRefUserDelete(rref_id, fork_id, abandoned))\n"
        "        self._session.send_control(owner, RRefUserDelete(rref_id, fork_id, abandoned))\n",
    ),
    Mutant(
        name="fork-request-doubled",
        wrong="an owner is told twice of a user",
        place="rpc.rref_context:RRefContext.notify_owner_and_parent_of_fork",
        old="        try:\n            reply = self._session",
        new="        self._session.send_control(\n"
        "            rref.owner_id, RRefForkRequest(rref.rref_id, fork_id)\n"
        "        )\n"
        "        try:\n            reply = self._session",
    ),
    Mutant(
        name="creator-introduces-itself",
        wrong="the creator of an RRef tells its owner of itself when the creation is answered",
        place="rpc.rref_creation:confirm_pending_user",
        old="    context.user_tables.end_pending_user(fork_id, error)\n",
        new="    user = context.user_tables.get_pending_user(fork_id)\n"
        "    from squall.real.rpc.commands import RRefForkRequest\n"
        "    context._session.send_control(user.owner_id, RRefForkRequest(rref_id, fork_id))\n"
        "    del user\n"
        "    context.user_tables.end_pending_user(fork_id, error)\n",
    ),
    # -- contexts ---------------------------------------------------------------------------------
    Mutant(
        name="release-to-everybody",
        wrong="all workers of the group are told of a release",
        place="autograd.container:DistAutogradContainer._release",
        old="self._send_release_context_rpc(known_workers, context_id)",
        new="self._send_release_context_rpc(range(len(self._worker.agent.get_worker_infos())), "
        "context_id)",
    ),
    Mutant(
        name="release-never-to-oneself",
        wrong="a worker that has sent itself messages of a context does not tell itself",
        place="autograd.container:DistAutogradContainer._send_release_context_rpc",
        old="    for worker_id in known_workers:\n",
        new="    for worker_id in known_workers:\n"
        "        if worker_id == self.worker_id:\n            continue\n",
    ),
    Mutant(
        name="release-not-back-to-its-maker",
        wrong="the worker that made a context is not told of its release by those that it told",
        place="autograd.container:DistAutogradContainer._send_release_context_rpc",
        old="    for worker_id in known_workers:\n",
        new="    for worker_id in known_workers:\n"
        "        if worker_id == context_id >> LOCAL_ID_BITS:\n            continue\n",
    ),
    Mutant(
        name="release-told-to-all-after-each-answer",
        wrong="whoever has heard of a release is taken for one that did not, and all are told",
        place="autograd.container:_Reporter.__call__",
        old="        return\n",
        new="        pass\n",
    ),
    Mutant(
        name="release-doubled",
        wrong="each known worker is told of a release twice",
        place="autograd.container:DistAutogradContainer._release",
        old="self._send_release_context_rpc(known_workers, context_id)",
        new="self._send_release_context_rpc([*known_workers, *known_workers], context_id)",
    ),
    # -- passes -----------------------------------------------------------------------------------
    Mutant(
        name="gradients-doubled",
        wrong="gradients are sent twice, and the second answer counts",
        place="autograd.context:DistAutogradContext.propagate_gradients",
        old="    self.add_outstanding_rpc(",
        new="    agent.send(to, request.to_message())\n    self.add_outstanding_rpc(",
    ),
    # -- calls ------------------------------------------------------------------------------------
    Mutant(
        name="request-sent-twice",
        wrong="each request leaves twice, and the second copy is ignored",
        place="rpc.agent:RpcAgent.send",
        old="        self._world.send(self._group, message)\n",
        new="        self._world.send(self._group, message)\n"
        "        self._world.send(self._group, message)\n",
    ),
    Mutant(
        name="answer-sent-twice",
        wrong="each answer leaves twice, and the second one comes for no call",
        place="rpc.agent:RpcAgent._answer",
        old="            self._world.send(self._group, reply)\n",
        new="            self._world.send(self._group, reply)\n"
        "            self._world.send(self._group, reply)\n",
    ),
    Mutant(
        name="copies-are-served",
        wrong="a copy that the network made of a request is handled as another one",
        place="rpc.agent:RpcAgent.receive",
        old="if key in seen:",
        new="if False:",
        needs="X",
    ),
    Mutant(
        name="fetched-twice",
        wrong="a value is fetched twice, and the second copy is used",
        place="rpc.fetch:fetch",
        old="    future: Future[Message] | None = send_message_with_autograd(",
        new="    worker.agent.send(user.owner_id, request, timeout_s)\n"
        "    future: Future[Message] | None = send_message_with_autograd(",
    ),
    Mutant(
        name="own-value-by-message",
        wrong="an owner that wants its own value asks for its type by a message before",
        place="rpc.py_rref:RRef.to_here",
        old="    rref = self._rref\n",
        new="    rref = self._rref\n"
        "    if isinstance(rref, OwnerRRef) and rref.future.is_done:\n"
        "        rpc_async(self.owner(), len, args=((),)).wait()\n",
    ),
    Mutant(
        name="type-asked-for-each-time",
        wrong="the type of a value is asked for before each call by proxy",
        place="rpc.py_rref:RRef._get_type",
        old="    if known is not None:\n",
        new="    if False:\n",
    ),
    Mutant(
        name="caller-told-before-the-call",
        wrong="a synchronous call is preceded by one that does nothing, to open the connection",
        place="rpc.calls:rpc_sync",
        old="    return _invoke_rpc(",
        new='    _invoke_rpc(to, len, ((),), None, timeout, "sync").wait()\n    return _invoke_rpc(',
    ),
    # -- groups -----------------------------------------------------------------------------------
    Mutant(
        name="leader-calls-itself",
        wrong="the leader of a gather gives itself its own object by a message",
        place="rpc.all_gather:_gather",
        old="    if leader_name == self_name:\n            _gather_to_leader(",
        new="    if False:\n            _gather_to_leader(",
    ),
    Mutant(
        name="gathered-objects-to-the-leader",
        wrong="the leader of a gather tells itself, too, that all have come",
        place="rpc.all_gather:_gather",
        old="_broadcast(sequence_id, names[1:], result, rpc_timeout)",
        new="_broadcast(sequence_id, names[1:], result, rpc_timeout)\n"
        "            rpc_sync(self_name, len, args=((),))",
    ),
    Mutant(
        name="handshake-twice",
        wrong="a new group opens its connections twice",
        place="rpc.all_gather:_start_barrier",
        old="    _gather(None, None, timeout, share=False)\n",
        new="    _gather(None, None, timeout, share=False)\n"
        "    _gather(None, None, timeout, share=False)\n",
    ),
    Mutant(
        name="handshake-left-out",
        wrong="a new group does not open its connections before it begins",
        place="rpc.all_gather:_start_barrier",
        old="    _gather(None, None, timeout, share=False)\n",
        new="    pass\n",
    ),
    Mutant(
        name="reply-after-lost-connection-unread",
        wrong="the references in a reply that comes when its connection has broken are lost",
        place="rpc.call_table:CallTable.peer_lost",
        old="self._remember_expired(id)",
        new="pass",
        needs="LEXK",
    ),
)
