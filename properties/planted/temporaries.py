"""References that nobody holds while what they are given to is under way."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 91
MUTANTS = (
    Mutant(
        name="proxy-does-not-hold-its-reference",
        wrong="a proxy refers to its reference weakly: that of a temporary is gone before the call",
        place="rpc.rref_proxy:RRefProxy.__init__",
        old="    self.rref = rref\n",
        new="    import weakref\n    self.rref = weakref.proxy(rref)\n",
    ),
    Mutant(
        name="proxy-calls-twice",
        wrong="a proxy that knows the type calls at once, and again when it is told of the type",
        place="rpc.rref_proxy:_invoke_rpc",
        old="    type_future.add_callback(then_call)\n",
        new="    if type_future.is_done:\n        then_call(type_future)\n"
        "    type_future.add_callback(then_call)\n",
    ),
    Mutant(
        name="given-back-once-fetched",
        wrong="a reference is given back as soon as its value has been fetched",
        place="rpc.py_rref:RRef.to_here",
        old="        value = fetch(rref, seconds(timeout))\n",
        new="        value = fetch(rref, seconds(timeout))\n    rref.try_del()\n",
    ),
    Mutant(
        name="given-back-before-the-fetch",
        wrong="a temporary is given back as its fetch begins",
        place="rpc.fetch:fetch",
        old="    worker = user.context.worker\n",
        new="    worker = user.context.worker\n    user.try_del()\n",
    ),
    Mutant(
        name="given-back-once-passed-on",
        wrong="a reference is given back as soon as it has been passed on",
        place="rpc.rref_context:RRefContext.prepare_child_fork",
        old="        self.user_tables.add_pending_child(fork_id, rref)\n",
        new="        self.user_tables.add_pending_child(fork_id, rref)\n        rref.try_del()\n",
    ),
    Mutant(
        name="second-hand-user-taken-for-known",
        wrong="a reference that came from another user is taken for one that the owner knows",
        place="rpc.rref_context:RRefContext.notify_owner_and_parent_of_fork",
        old="elif parent == rref.owner_id:",
        new="elif True:",
    ),
    Mutant(
        name="fork-from-the-owner",
        wrong="a reference that is passed on says that it comes from its owner",
        place="rpc.rref_context:RRefContext.prepare_child_fork",
        old="*fork_id, self.worker.id, rref.type_str)",
        new="*fork_id, rref.owner_id, rref.type_str)",
    ),
    Mutant(
        name="deletion-of-the-creator",
        wrong="the deletion of a user names the fork of its creator",
        place="rpc.rref_users:UserTables.del_user",
        old="RRefUserDelete(rref_id, fork_id, abandoned)",
        new="RRefUserDelete(rref_id, rref_id, abandoned)",
    ),
    Mutant(
        name="deletion-to-the-creator",
        wrong="the deletion of a user is told to whoever created the reference",
        place="rpc.rref_users:UserTables.del_user",
        old="self._session.send_control(owner, RRefUserDelete",
        new="self._session.send_control(rref_id.created_on, RRefUserDelete",
    ),
    Mutant(
        name="creation-on-oneself-not-kept",
        wrong="a creation on oneself whose reference is dropped finds no object for its value",
        place="rpc.rref_creation:_remote_to_self",
        old="    context.owner_tables.add_self_as_fork(owner)\n",
        new="",
    ),
    Mutant(
        name="creation-on-oneself-let-go-early",
        wrong="a creation on oneself is let go of as soon as it is sent",
        place="rpc.rref_creation:_remote_to_self",
        old="    rref_id = owner.rref_id\n",
        new="    rref_id = owner.rref_id\n"
        "    context.owner_tables.del_fork_of_owner(rref_id, rref_id)\n",
    ),
    Mutant(
        name="function-waits-for-nobody",
        wrong="of the references in an answer none is waited for, nor in a request",
        place="rpc.rref_context:RRefContext.notify_owner_and_parent_of_fork",
        old="add_pending_user(fork_id, rref, record=True)",
        new="add_pending_user(fork_id, rref)",
    ),
    Mutant(
        name="child-accepted-by-name",
        wrong="who accepts one child accepts all children of its parent",
        place="rpc.rref_users:UserTables.del_pending_child",
        old="        parent = self.pending_children.pop(fork_id, None)\n",
        new="        parent = self.pending_children.pop(fork_id, None)\n"
        "        for child in [c for c, p in self.pending_children.items() if p is parent]:\n"
        "            del self.pending_children[child]\n",
    ),
    Mutant(
        name="home-coming-fork-frees",
        wrong="a fork that comes home to its owner takes the value with it",
        place="rpc.rref_context:RRefContext._take_home",
        old="        self._accept(fork_id, parent)\n",
        new="        self._accept(fork_id, parent)\n"
        "        owner = self.owner_tables.owners.pop(rref_id, None)\n",
    ),
    Mutant(
        name="unread-result-keeps-its-frame",
        wrong="the error of a result that cannot be read keeps the frame in which it was made",
        place="rpc.serialization:deserialize",
        old="del explained",
        new="pass",
    ),
)
