"""Bugs in what carries process groups here: the coordinator's part of them, and that in the processes of ranks."""

from __future__ import annotations

from functools import partial

from squall.sim.search.mutants.mutant import Mutant

RANK = 300
bug = partial(Mutant, groups=True)
_PIECES = "squall.sim.world.pieces:Connections"
_GROUPS = "squall.sim.scripts.groups:Groups"
_GROUP = "squall.sim.scripts.group:ProcessGroup"
_LEDGER = "squall.sim.scripts.ledger:Ledger"
_OPERATIONS = "squall.sim.scripts.collectives:Operations"
_REDUCTIONS = "squall.sim.scripts.reductions"
_MEMBER = "squall.sim.stock.group_guest:Member"
_NATIVE = "squall.sim.stock.groups:NativeGroups"
MUTANTS = (
    # -- what is carried --------------------------------------------------------------------
    bug(
        name="pieces-overtake",
        wrong="messages of one sender to one receiver with one tag arrive in any order",
        place=f"{_PIECES}._arrived",
        old="    if piece.type is not MessageType.SEND:\n",
        new="    if piece.type is not None:\n",
    ),
    bug(
        name="message-number-is-reused",
        wrong="every second message has the number of the one before it",
        place=f"{_PIECES}.send",
        old="        self._sent[src, dst, piece.tag] += 1\n",
        new="        self._sent[src, dst, piece.tag] += piece.at % 2 == 0\n",
    ),
    bug(
        name="tags-count-for-nothing",
        wrong="a receive takes the first message of its sender, whatever its tag",
        place=f"{_MEMBER}.run",
        old="call.number, call.batch = args[2], batch_of(sys._getframe())",
        new="call.number, call.batch = 0, batch_of(sys._getframe())",
    ),
    bug(
        name="lost-piece-is-not-sent-again",
        wrong="what was lost once is lost for good",
        place=f"{_PIECES}._send_again",
        old="    self._network.runtime.call_later_for_nobody(after_s, send)\n",
        new="    self._again[src] -= 1\n",
        needs="L",
    ),
    bug(
        name="piece-that-comes-again-is-lost-again",
        wrong="what was sent again is given up at once",
        place=f"{_PIECES}._send_again",
        old="    if times == _TIMES:\n",
        new="    if times == 0:\n",
        needs="L",
    ),
    bug(
        name="sender-leaves-before-it-sent-again",
        wrong="a member that leaves does not wait until what was lost is sent again",
        place=f"{_PIECES}.close",
        old="    if self._again[member]:\n        self._leaving.add(member)\n    elif",
        new="    if",
        needs="L",
    ),
    # -- who waits for whom -----------------------------------------------------------------
    bug(
        name="late-piece-is-of-the-next-collective",
        wrong="what a collective is sent is known by its kind, and not by its number",
        place=f"{_MEMBER}.run",
        old="        call.number = self._count\n",
        new="        call.number = self._count % 2\n",
    ),
    bug(
        name="collectives-share-a-number",
        wrong="a member's second collective has the number of its first",
        place=f"{_MEMBER}.run",
        old="        self._count += 1\n        call.number",
        new="        self._count += self._count != 1\n        call.number",
    ),
    bug(
        name="collective-is-over-without-the-last",
        wrong="a collective of more than two members does not wait for the last one",
        place=f"{_GROUPS}._over",
        old="    if wait.wants or wait.readers:\n",
        new="    if len(wait.wants) > (group.size > 2) or wait.readers:\n",
    ),
    bug(
        name="sender-waits-for-nobody",
        wrong="a message is over as it is sent",
        place=f"{_OPERATIONS}.send",
        old=", readers=[dst])",
        new=")",
    ),
    bug(
        name="notice-that-came-early-is-lost",
        wrong="a member that waited for a message before it was sent is forgotten",
        place=f"{_GROUPS}.notice",
        old="    group.notices[dst, src, tag] += 1\n",
        new="    pass\n",
    ),
    bug(
        name="notice-is-used-again",
        wrong="one who has waited for a message counts as one who waits for the next too",
        place=f"{_GROUPS}._begin",
        old="            group.notices[rank, dst, tag] -= 1\n",
        new="            pass\n",
        unseen="who goes on before its receiver is there computes the same",
    ),
    bug(
        name="any-source-takes-the-last",
        wrong="a receive from any source takes what came last, and says that it is of who came first",
        place=f"{_GROUPS}._fetch",
        old="    queue = group.pieces[wait.rank, src, wait.tag]\n",
        new="    queue = group.pieces[wait.rank, senders[-1] if senders and wanted == ANY else src, wait.tag]\n",
    ),
    bug(
        name="any-source-is-not-told",
        wrong="whoever's message was received from any source is not told that it is over",
        place=f"{_GROUPS}._fetch",
        old="        group.send(wait.rank, src, MessageType.NOTICE, wait.tag)\n",
        new="        pass\n",
    ),
    bug(
        name="first-piece-wakes-nobody",
        wrong="a piece that comes for an operation that waits is taken by nobody",
        place=f"{_GROUPS}.piece",
        old="        if is_meant and (src in wait.wants or ANY in wait.wants):\n",
        new="        if is_meant and (src in wait.wants[1:] or ANY in wait.wants):\n",
    ),
    bug(
        name="groups-share-a-number",
        wrong="a group that is made when others are there is taken for the one before it",
        place=f"{_NATIVE}._new",
        old="    number = len(self.groups)\n",
        new="    number = min(len(self.groups), 1)\n",
    ),
    bug(
        name="certain-end-forgets-a-piece",
        wrong="what a member is told ahead of its time lacks what has come already",
        place=f"{_GROUP}.certain_end",
        old="((at_s, True, number), wait.got | pieces)",
        new="((at_s, True, number), pieces)",
    ),
    bug(
        name="end-is-foreseen-too-early",
        wrong="an operation is foreseen to end with the first of its pieces",
        place=f"{_GROUP}.certain_end",
        old="    at_s, number = max(each[:2] for each in coming)\n",
        new="    at_s, number = min(each[:2] for each in coming)\n",
    ),
    bug(
        name="all-leave-with-the-first",
        wrong="when one member leaves a group the connections of all are closed",
        place=f"{_GROUPS}.left",
        old="    group.connections.close(rank)\n",
        new="    for member in group.members:\n        group.connections.close(member)\n",
    ),
    bug(
        name="leaving-is-not-seen",
        wrong="nobody learns that the connection to a member has ended",
        place=f"{_GROUPS}.lost",
        old="    group.forget(peer, member)\n",
        new="    return\n",
        needs="K",
    ),
    # -- what comes of it -------------------------------------------------------------------
    bug(
        name="ring-leaves-out-a-rank",
        wrong="a reduction of more than two members leaves out the last one of a ring",
        place=f"{_REDUCTIONS}:_in_a_ring",
        old="for step in range(ranks)]",
        new="for step in range(ranks - 1)]",
    ),
    bug(
        name="mean-of-one-less",
        wrong="a mean is over one member less",
        place=f"{_REDUCTIONS}:reduced",
        old="    return total.div_(len(tensors)) if",
        new="    return total.div_(max(1, len(tensors) - 1)) if",
    ),
    bug(
        name="reduced-into-the-first",
        wrong="a reduction of two members writes to what the first has given",
        place=f"{_REDUCTIONS}:reduced",
        old="out=_out(tensors, into))",
        new="out=tensors[0].detach())",
    ),
    bug(
        name="smallest-is-largest",
        wrong="of three members and more the smallest is taken for the largest",
        place=f"{_REDUCTIONS}:reduced",
        old="    operator = _OPERATORS.get(name)\n",
        new="    operator = _OPERATORS.get('MIN' if name == 'MAX' and len(tensors) > 2 else name)\n",
    ),
    bug(
        name="chunk-off-by-one",
        wrong="the chunks of a ring are one element too short, and the last is left as it was",
        place=f"{_REDUCTIONS}:_in_a_ring",
        old="        begin = end\n",
        new="        begin = end + (end + 1 == size)\n",
    ),
    bug(
        name="gathered-in-another-order",
        wrong="what is gathered is in the order in which it came",
        place=f"{_MEMBER}.run",
        old="operation.finish(dict(sorted(values.items())))",
        new="operation.finish(dict(values.items()))",
    ),
    bug(
        name="scatters-the-next-part",
        wrong="the root gives each member the part of the next one",
        place=f"{_OPERATIONS}.scatter",
        old="enumerate(parts)\n",
        new="enumerate(parts[1:] + parts[:1])\n",
    ),
    bug(
        name="part-of-another-rank",
        wrong="of what is reduced and scattered a member takes the part before its own",
        place=f"{_OPERATIONS}.reduce_scatter_tensor",
        old="    return self._scattered(outputs, [*map(list, zip(*split, strict=True))], op, as_one=True)\n",
        new="    parts = [*map(list, zip(*split, strict=True))]\n"
        "    return self._scattered(outputs, parts[1:] + parts[:1], op, as_one=True)\n",
    ),
    bug(
        name="all-to-all-in-one-order",
        wrong="a member sends all the part that is for the first",
        place=f"{_OPERATIONS}._exchange_parts",
        old="    given = [[each] for each in inputs]\n",
        new="    given = [[inputs[0]] for _ in inputs]\n",
    ),
    bug(
        name="broadcast-by-who-is-not-root",
        wrong="who is not the root gets what the first member has",
        place=f"{_OPERATIONS}._from_root",
        old="    root = operation.root\n    assert root is not None\n",
        new="    root = 0\n",
    ),
    bug(
        name="work-is-over-before-it-is-written",
        wrong="who waits for a work goes on before its results are there",
        place=f"{_MEMBER}.run",
        old="    question = self._here.ask_then(asked, then)\n",
        new="    question = self._here.ask_then(asked, then)\n    if message is None:\n        work.done()\n",
    ),
    # -- what is found ----------------------------------------------------------------------
    bug(
        name="mismatch-is-seen-where-there-is-none",
        wrong="calls of one number are compared with those of the number before",
        place=f"{_LEDGER}.note",
        old="    sequence, call = call.sequence, self.known(call)\n",
        new="    sequence, call = call.sequence // 2, self.known(call)\n",
    ),
)
