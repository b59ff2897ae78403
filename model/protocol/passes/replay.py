"""A run as a path of the model: each event of a context or a pass is a step that a rule allows.

The events do not tell all. What the model does without one is put in where an event needs it:

- Messages that make no node have no event. The first from one worker to another has, since its
  receiver is known then: it stands for all of them, and for what made the context at the receiver.
- Whether a message is a call or a reply is not asked: all are read as calls.
- Where the tensors of a message come from is known once a pass has computed its dependencies. It may
  not change after that.
- Why a part fails: an error that no answer, release or lost send function explains is that of a node.
- Copies of a release that are doubled or sent again.

Gradients and releases are followed by the number of the call that carries them: from the worker that
sends to the task that handles the request, and back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from squall.model.protocol.passes import message_correlation
from squall.model.protocol.passes.following import Followed, shown
from squall.model.protocol.passes.message_correlation import GRADIENTS, Call, Calls
from squall.model.protocol.passes.not_allowed import NotAllowedError
from squall.model.protocol.passes.number_set import NONE, Numbers
from squall.model.protocol.passes.reachability import ROOT, Leads
from squall.model.protocol.passes.state import (
    BY_USER,
    Context,
    ContextStage,
    Gradients,
    Progress,
    Way,
)
from squall.model.protocol.passes.table import RULES, Rules
from squall.real import tracing
from squall.real.tracing import EventType

#: the low bits of a context's id count; above them stands the worker that made it
_COUNTER_BITS = 48
#: what is said to gradients whose context is not there any more
_NO_CONTEXT = "Could not find autograd context"


class Replay(Followed):
    """All contexts of a run, as states of the model.

    Each event is given to the method of :data:`READERS` for its type, which raises NotAllowedError if
    it is no step. Of calls and what handles them, only those of a type in ``CARRIED`` are. What a
    fault does to a whole process is not in the model: contexts that a worker had part in when it
    ended, or left its group, are not followed any further.
    """

    def __init__(self, rules: Rules = RULES) -> None:
        super().__init__(rules)
        #: by context: the pairs whose leads are known
        self._settled: dict[int, set[int]] = {}
        self._calls = Calls()
        #: by task: the start of a part, of which the next event tells more
        self._starting: dict[int, tuple[int, int]] = {}
        #: releases that were sent once: context, by whom and to whom; requests that were taken up
        self._told: set[tuple[int, int, int]] = set()
        self._taken_up: set[Call] = set()
        #: by context and worker: the model has released it already, since an answer said so
        self._due: set[tuple[int, int]] = set()

    # -- contexts and messages ------------------------------------------------------------------

    def context_created(self, worker: int, task: int, id: int) -> None:
        context = self.contexts.get(id)
        if context is None:
            if id >> _COUNTER_BITS != worker:
                raise NotAllowedError(f"context {id} made on its worker first", "not")
            context = self.contexts[id] = Context()
            self._pairs[id], self._settled[id] = {}, set()
            self._step("open_context", context, worker)
            return
        for number, pair in enumerate(context.pairs):
            if pair.to == worker and pair.way is Way.UNDER_WAY and not pair.joins:
                self._step("arrives", context, number)
                if context.stage(worker) is ContextStage.LIVE:
                    return
        raise NotAllowedError(f"a message on its way to worker {worker}", shown(context))

    def known_worker_added(self, worker: int, task: int, id: int, known: int) -> None:
        context = self._context(id)
        if known in self.gone:
            self.lost.add(id)
        self._step("call_without_tensors", context, worker, known)

    def known_worker_removed(self, worker: int, task: int, id: int, known: int) -> None:
        context = self._context(id)
        for number, pair in enumerate(context.pairs):
            if pair.at == worker and pair.to == known and pair.way is not Way.BACK:
                self._step("take_back", context, number)

    def send_attached(self, worker: int, task: int, id: int, message: int, to: int, n: int) -> None:
        context = self._context(id)
        pairs = self._pairs[id]
        if message in pairs:
            raise NotAllowedError("a new message", f"message {message} again")
        pairs[message] = len(context.pairs)
        if not context.knows(worker, to):
            raise NotAllowedError(f"worker {to} known to worker {worker}", "it is not")
        self._step("call", context, worker, to, NONE)

    def send_detached(self, worker: int, task: int, id: int, message: int) -> None:
        context = self._context(id)
        number = self._pair(id, message)
        if context.pairs[number].way is not Way.BACK:
            self._step("call_is_late", context, number)

    def recv_attached(
        self, worker: int, task: int, id: int, message: int, sender: int, n: int
    ) -> None:
        context = self._context(id)
        number = self._pair(id, message)
        pair = context.pairs[number]
        if (pair.at, pair.to) != (sender, worker):
            expected = f"message {message} from worker {pair.at} to worker {pair.to}"
            raise NotAllowedError(expected, f"from worker {sender} to worker {worker}")
        self._step("arrives", context, number)
        if context.stage(worker) is not ContextStage.LIVE:
            raise NotAllowedError(f"context {id} on worker {worker}", shown(context))

    # -- passes ---------------------------------------------------------------------------------

    def pass_started(
        self, worker: int, task: int, id: int, roots: int, retain: bool, outstanding: int
    ) -> None:
        self._starting[task] = (roots, outstanding)

    def dependencies_computed(
        self, worker: int, task: int, id: int, nodes: object, described: Any
    ) -> None:
        roots, outstanding = self._starting.pop(task)
        context = self._context(id)
        leads = Leads(described, partial(self._pair_in_graph, id))
        counted = self._settle(id, context, worker, leads)
        if roots:
            number = len(context.passes)
            self._step("begin", context, worker, leads.of[ROOT])
        else:
            sent = self._at(task, id)
            number = sent.number
            if context.passes[number].gradients[sent.pair] is not Gradients.WORKED_ON:
                self._step("gradients_join", context, number, sent.pair)
        part = context.passes[number].parts.get(worker)
        first = BY_USER if roots else sent.pair
        if part is None or part.first != first or not part.runs:
            raise NotAllowedError("a part of the pass that begins", shown(context))
        if part.counted != counted or outstanding != len(counted):
            expected = f"a part that waits for pairs {list(part.counted)}"
            raise NotAllowedError(expected, f"pairs {list(counted)}, {outstanding} outstanding")

    def _settle(self, id: int, context: Context, worker: int, leads: Leads) -> Numbers:
        """The pairs with a send function in a graph. Where they lead is known from here on."""
        settled = self._settled[id]
        new: dict[int, Numbers] = {}
        received = context.received(worker)
        for number, there in leads.of.items():
            if number == ROOT:
                continue
            if number in settled:
                if (known := context.pairs[number].leads) != there:
                    expected = f"pair {number} leads to pairs {list(known)}"
                    raise NotAllowedError(expected, f"pairs {list(there)}")
                continue
            earlier = Numbers(bits=received.bits & (1 << number) - 1)
            if not there <= earlier:
                expected = f"pair {number} computed from what had come to worker {worker}"
                raise NotAllowedError(expected, f"pairs {list(there - earlier)}")
            new[number] = there
        context.settle(new, leads.to)
        settled.update(new)
        return Numbers(number for number in leads.of if number != ROOT)

    def gradients_sent(self, worker: int, task: int, id: int, message: int, to: int) -> None:
        context = self._context(id)
        number = context.running(worker)
        pair = self._pair(id, message)
        if number is None:
            raise NotAllowedError(f"a pass that runs on worker {worker}", shown(context))
        if context.pairs[pair].at != to or context.pairs[pair].to != worker:
            raise NotAllowedError(f"gradients to worker {context.pairs[pair].at}", f"to {to}")
        part = context.passes[number].parts[worker]
        heard = part.progress
        if heard is Progress.FAILING:  # whoever sent what was refused has not told the pass yet
            part.progress = Progress.RUNNING
        self._step("gradients_leave", context, number, pair)
        part.progress = heard
        self._calls.leaves(task, message_correlation.Gradients(id, number, pair))

    def gradients_received(
        self, worker: int, task: int, id: int, message: int, first: bool
    ) -> None:
        context = self._context(id)
        sent = self._at(task, id)
        each = context.passes[sent.number]
        if sent.pair != self._pair(id, message):
            raise NotAllowedError(f"gradients of pair {sent.pair}", f"of message {message}")
        part = each.parts.get(worker)
        if not first and (part is None or part.first != sent.pair):
            self._step("gradients_join", context, sent.number, sent.pair)
            part = each.parts.get(worker)
        taken = part is not None and first == (part.first == sent.pair) and sent.pair in part.fed
        if not taken:
            raise NotAllowedError("gradients that are taken, as in the model", shown(context))

    def pass_ended(
        self,
        worker: int,
        task: int,
        id: int,
        error: str | None,
        outstanding: int,
        not_ready: object,
        dependencies: object,
    ) -> None:
        context = self._context(id)
        running = context.running(worker)
        if running is None:
            raise NotAllowedError(f"a pass that runs on worker {worker}", shown(context))
        part = context.passes[running].parts[worker]
        by = self._calls.gradients_at(task)
        if by is not None and by.context == id and by.number != running:
            each = context.passes[by.number]
            if (
                each.gradients[by.pair] is Gradients.TAKEN_UP
                and context.pairs[by.pair].at == worker
            ):
                self._step("gradients_join", context, by.number, by.pair)
                if part.runs or error is None:
                    raise NotAllowedError("a pass that the next one ends", shown(context))
                return
        if error is None:
            self._step("part_ends", context, running, worker)
            return
        if part.progress is Progress.RUNNING:
            self._step("node_raises", context, running, worker)
        self._step("part_gives_up", context, running, worker)

    # -- the calls that carry gradients and releases ---------------------------------------------

    def call_started(
        self, worker: int, task: int, call: int, to: int, type: str, timeout: object, about: Any
    ) -> None:
        id = about[0]
        if id in self.lost:
            return
        if type == GRADIENTS:
            gradients = self._calls.gradients_called(task, (worker, call))
            if gradients is None or gradients.context != id:
                raise NotAllowedError("gradients that leave", f"a call about {about}")
        elif self._tell(worker, to, id):
            self._calls.release_called((worker, call), id)

    def _tell(self, worker: int, to: int, id: int) -> bool:
        context = self._context(id)
        if (id, worker, to) in self._told:
            if not self._try("repeat_cleanup", context, worker, to):
                self._step("double_cleanup", context, worker, to)
        elif (worker, to) not in context.cleanups:
            if self.ends:
                self.lost.add(id)
                return False
            raise NotAllowedError(f"worker {worker} tells those it knows", f"worker {to}")
        self._told.add((id, worker, to))
        return True

    def handler_started(self, worker: int, task: int, src: int, type: str, call: int) -> None:
        self._calls.handles(worker, task, (src, call))
        sent = self._calls.gradients_of((src, call)) if type == GRADIENTS else None
        if sent is None or sent.context in self.lost:
            return
        context = self.contexts[sent.context]
        if context.stage(worker) is ContextStage.LIVE and context.pairs[sent.pair].attached:
            self._try("gradients_arrive", context, sent.number, sent.pair)

    def handler_ended(
        self, worker: int, task: int, src: int, type: str, call: int, error: str | None
    ) -> None:
        if type == GRADIENTS:
            sent = self._calls.gradients_of((src, call))
            if sent is not None and sent.context not in self.lost:
                self._answer(worker, sent, error)
            return
        id = self._calls.release_of((src, call))
        if id is not None and (src, call) not in self._taken_up:
            if id not in self.lost and self.contexts[id].stage(worker) is ContextStage.LIVE:
                self._due.add((id, worker))
            self._take_up(worker, (src, call), id)

    def _answer(self, worker: int, sent: message_correlation.Gradients, error: str | None) -> None:
        context = self.contexts[sent.context]
        gradients = context.passes[sent.number].gradients
        gone = f"Error on Node {worker}: {_NO_CONTEXT}"  # and not on one that it had asked
        if error is not None and gone in error and context.stage(worker) is ContextStage.LIVE:
            self._release_ahead(worker, sent.context)
        if gradients[sent.pair] is Gradients.TAKEN_UP:
            if context.stage(worker) is ContextStage.LIVE and context.pairs[sent.pair].attached:
                self._step("gradients_join", context, sent.number, sent.pair)
            else:  # that was gone when the task looked for it
                gradients[sent.pair] = Gradients.UNDER_WAY
        if gradients[sent.pair] is Gradients.UNDER_WAY:
            self._step("gradients_arrive", context, sent.number, sent.pair)
        part = context.passes[sent.number].parts.get(worker)
        if part is not None and part.progress is Progress.FOLLOWED and part.first == sent.pair:
            rule = "part_answers" if error is None else "part_is_cut_off"
            self._try(rule, context, sent.number, worker)
        expected = Gradients.ANSWERED if error is None else Gradients.REFUSED
        sender = context.passes[sent.number].parts[context.pairs[sent.pair].to]
        if error is None and sender.progress is Progress.FAILED:
            gradients[sent.pair] = (
                expected  # to a part that is over: whatever is said comes to nothing
            )
        if gradients[sent.pair] not in (expected, Gradients.HEARD):
            words = f"gradients of pair {sent.pair} in pass {sent.number} {expected.name}"
            raise NotAllowedError(words, gradients[sent.pair].name)

    def call_ended(self, worker: int, task: int, call: int, to: int, outcome: str) -> None:
        sent = self._calls.gradients_of((worker, call))
        if sent is None or sent.context in self.lost:
            return
        context = self.contexts[sent.context]
        refused = context.passes[sent.number].gradients[sent.pair] is Gradients.REFUSED
        if outcome == "ok" and refused:
            raise NotAllowedError("an error", "an answer")
        if outcome == "ok" or refused:
            self._step("answer_arrives", context, sent.number, sent.pair)
        else:
            self._try("gradients_are_late", context, sent.number, sent.pair)

    def _release_ahead(self, worker: int, id: int) -> None:
        """A context is gone from its worker: the event is to come, once what waits there has
        ended."""
        context = self.contexts[id]
        self._due.add((id, worker))
        for call in self._calls.releases_at_work(id, worker):
            if call not in self._taken_up:
                self._take_up(worker, call, id)
                return
        if worker != context.maker or not self._try("release", context):
            self._step("release_early", context, worker)

    def context_released(self, worker: int, task: int, id: int) -> None:
        context = self._context(id)
        call = self._calls.release_at(task)
        mine = call is not None and self._calls.release_of(call) == id
        if (id, worker) in self._due:
            self._due.discard((id, worker))
        elif call is not None and mine and call not in self._taken_up:
            self._take_up(worker, call, id)
        elif worker != context.maker or not self._try("release", context):
            self._step("release_early", context, worker)

    def _take_up(self, worker: int, call: Call, id: int) -> None:
        self._taken_up.add(call)
        if id in self.lost:
            return
        context, by = self.contexts[id], call[0]
        if not context.cleanups.get((by, worker)):
            self._step("double_cleanup", context, by, worker)
        self._step("cleanup_arrives", context, by, worker)

    def _at(self, task: int, id: int) -> message_correlation.Gradients:
        """The gradients that a task is at."""
        sent = self._calls.gradients_at(task)
        if sent is None or sent.context != id:
            raise NotAllowedError("gradients that the task has got", "none")
        return sent

    def finish(self) -> None:
        """No event comes any more. Raises NotAllowedError if one had to."""
        for id, worker in self._due:
            if id not in self.lost:
                raise NotAllowedError(f"context {id} released on worker {worker}", "no event")


Reader = Callable[..., None]
#: what reads an event of each type, given the worker, the task and the values
READERS: dict[EventType, Reader] = {
    tracing.CONTEXT_CREATED: Replay.context_created,
    tracing.CONTEXT_RELEASED: Replay.context_released,
    tracing.KNOWN_WORKER_ADDED: Replay.known_worker_added,
    tracing.KNOWN_WORKER_REMOVED: Replay.known_worker_removed,
    tracing.SEND_ATTACHED: Replay.send_attached,
    tracing.SEND_DETACHED: Replay.send_detached,
    tracing.RECV_ATTACHED: Replay.recv_attached,
    tracing.PASS_STARTED: Replay.pass_started,
    tracing.DEPENDENCIES_COMPUTED: Replay.dependencies_computed,
    tracing.GRADIENTS_SENT: Replay.gradients_sent,
    tracing.GRADIENTS_RECEIVED: Replay.gradients_received,
    tracing.PASS_ENDED: Replay.pass_ended,
    tracing.CALL_STARTED: Replay.call_started,
    tracing.CALL_ENDED: Replay.call_ended,
    tracing.HANDLER_STARTED: Replay.handler_started,
    tracing.HANDLER_ENDED: Replay.handler_ended,
}
#: those of them whose first value is not a context
ABOUT_CALLS = frozenset(
    {
        tracing.CALL_STARTED,
        tracing.CALL_ENDED,
        tracing.HANDLER_STARTED,
        tracing.HANDLER_ENDED,
    }
)
