"""DistAutogradContainer: the contexts of one worker
(torch/csrc/distributed/autograd/context/container.cpp)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from squall.real import tracing
from squall.real.autograd.context import DistAutogradContext, ReleasedError, no_context
from squall.real.autograd.messages import CleanupAutogradContextReq, CleanupAutogradContextResp
from squall.real.future import Future
from squall.real.ids import LOCAL_ID_BITS, PROCESS_ID_BITS, IdSource
from squall.real.rpc.constants import CLEANUP_MAX_RETRIES
from squall.real.runtime import NO_CONTEXT, current_task

if TYPE_CHECKING:
    from squall.real.ids import AutogradMessageId, ContextId, WorkerId
    from squall.real.process import Process
    from squall.real.rpc.message import Message

logger = logging.getLogger(__name__)

#: how many released contexts are remembered; what comes later than that many others is too late
_RELEASED_MAX = 1 << 16


class DistAutogradContainer:
    """Makes, finds and releases contexts. The current one is an attribute of the task."""

    def __init__(self, worker: Process, *, worker_id: WorkerId | None = None) -> None:
        self._worker = worker
        self.worker_id = worker.id if worker_id is None else worker_id
        self._context_ids = IdSource(self.worker_id, worker.incarnation)
        self._message_ids = IdSource(self.worker_id, worker.incarnation)
        self._lock = worker.runtime.lock("autograd contexts")
        self._contexts: dict[ContextId, DistAutogradContext] = {}
        # Released contexts change under the lock; what else is told of them changes by one operation
        # of a dictionary, which is atomic between threads.
        self._released: dict[ContextId, None] = {}
        #: those of them of which only the known workers have been told
        self._untold: dict[ContextId, None] = {}
        #: those that this process was only told the end of, and an earlier one may have had
        self._missed: dict[ContextId, None] = {}
        #: by released context and worker: those that have not answered yet
        self._unheard: dict[tuple[ContextId, WorkerId], None] = {}

    # -- making -------------------------------------------------------------------------

    def new_context(self) -> DistAutogradContext:
        """A new context, the current one of this task from here on.

        Raises RuntimeError if the task has one.
        """
        task = current_task()
        if task.autograd_context_id != NO_CONTEXT:
            raise RuntimeError("Already have an autograd context id for this thread.")
        context = DistAutogradContext(self._worker, self._context_ids.next())
        with self._lock:
            self._contexts[context.context_id] = context
        task.autograd_context_id = context.context_id
        self._created(context)
        return context

    def get_or_create_context(self, context_id: ContextId) -> DistAutogradContext | None:
        """The context of that id, which another worker made. None if it was released here, or its
        maker has ended: a released context does not come back to life."""
        context = self._contexts.get(context_id)
        if context is not None:
            return context
        with self._lock:
            context = self._contexts.get(context_id)
            if context is not None:
                return context
            if context_id in self._released:
                return None
            if not self._maker_is_there(context_id):
                return None
            context = self._contexts[context_id] = DistAutogradContext(self._worker, context_id)
        self._created(context)
        return context

    def _maker_is_there(self, context_id: ContextId) -> bool:
        """Whether the process that made a context, and is to release it, has not ended."""
        agent = self._worker.agent
        if agent is None:
            return True
        worker_id, local_id = divmod(context_id, 1 << LOCAL_ID_BITS)
        return agent.is_there(worker_id, local_id >> PROCESS_ID_BITS)

    def _created(self, context: DistAutogradContext) -> None:
        tracer = self._worker.tracer
        if tracer.enabled:
            tracer.emit(tracing.CONTEXT_CREATED, context.context_id)
            tracer.made(context)

    def new_autograd_message_id(self) -> AutogradMessageId:
        return self._message_ids.next()

    # -- finding ------------------------------------------------------------------------

    def retrieve_context(self, context_id: ContextId) -> DistAutogradContext:
        """Raises RuntimeError if there is no such context."""
        context = self._contexts.get(context_id)
        if context is None:
            raise no_context(context_id)
        return context

    def current_context(self) -> DistAutogradContext:
        """The context of this task. Raises RuntimeError if there is none."""
        context_id = current_task().autograd_context_id
        if context_id == NO_CONTEXT:
            raise RuntimeError(
                # Programs look for the words up to the colon.
                "Current thread doesn't have a valid autograd context: there is none outside "
                "`with torch.distributed.autograd.context() as context_id`"
            )
        context = self._contexts.get(context_id)
        if context is None:
            raise ReleasedError
        return context

    def is_valid_context(self, context_id: ContextId) -> None:
        """Raises RuntimeError if there is no such context."""
        self.retrieve_context(context_id)

    def get_max_id(self) -> int:
        return self._context_ids.max_id

    def num_autograd_contexts(self) -> int:
        return len(self._contexts)

    # -- messages that come to nothing ----------------------------------------------------

    def take_back(self, context_id: ContextId, message_id: AutogradMessageId, to: WorkerId) -> None:
        """See :meth:`DistAutogradContext.take_back`; no effect once the context is released."""
        context = self._contexts.get(context_id)
        if context is not None:
            context.take_back(message_id, to)

    def drop_send_function(
        self, context_id: ContextId, message_id: AutogradMessageId, why: str
    ) -> None:
        """See :meth:`DistAutogradContext.drop_send_function`; no effect once it is released."""
        context = self._contexts.get(context_id)
        if context is not None:
            context.drop_send_function(message_id, why)

    # -- releasing ----------------------------------------------------------------------

    def release_context(self, context_id: ContextId) -> None:
        """Forget a context, here and on the workers that it knows.

        Raises RuntimeError if there is no such context.
        """
        if not self._release(context_id):
            raise no_context(context_id)

    def release_context_if_present(self, context_id: ContextId) -> bool:
        """As :meth:`release_context`; does nothing if there is no such context.

        False: this process never had it, but an earlier one of its rank may have.
        """
        self._release(context_id)
        return context_id not in self._missed

    def _release(self, context_id: ContextId) -> bool:
        with self._lock:
            context = self._contexts.pop(context_id, None)
            released = self._released
            if context is None and self._worker.incarnation and context_id not in released:
                self._missed[context_id] = None
            if context_id not in released:
                released[context_id] = self._untold[context_id] = None
            if len(released) > _RELEASED_MAX:
                oldest = next(iter(released))
                del released[oldest]
                self._untold.pop(oldest, None)
                self._missed.pop(oldest, None)
        if context is None:
            return False
        task = current_task()
        if task.autograd_context_id == context_id:
            task.autograd_context_id = NO_CONTEXT
        known_workers = context.retire()
        if context.lost_worker is not None:
            self.tell_everybody(context_id, context.lost_worker)
        context.release()
        tracer = self._worker.tracer
        if tracer.enabled:
            tracer.emit(tracing.CONTEXT_RELEASED, context_id)
        if tracer.observer is not None:
            tracer.observer.context_released(self._worker.id, context_id)
        self._send_release_context_rpc(known_workers, context_id)
        return True

    def _send_release_context_rpc(
        self, known_workers: list[WorkerId], context_id: ContextId
    ) -> None:
        """Tell the workers that were reached from here; they tell theirs. Never raises."""
        agent = self._worker.agent
        if agent is None:
            return
        for worker_id in known_workers:
            request = CleanupAutogradContextReq(context_id).to_message()
            try:
                future = agent.send_with_retries(worker_id, request, CLEANUP_MAX_RETRIES)
            except RuntimeError as error:
                _could_not_release(worker_id, error)
                continue
            self._unheard[context_id, worker_id] = None
            future.add_callback(_Reporter(self, worker_id, context_id))

    # -- workers that are gone ------------------------------------------------------------

    def process_ended(self, worker_id: WorkerId, incarnation: int) -> None:
        """Release the contexts that a process, or one before it, made and cannot release any more.

        Beyond PyTorch, where such contexts stay for ever.
        """
        first = worker_id << LOCAL_ID_BITS
        last = first + ((incarnation + 1) << PROCESS_ID_BITS)
        contexts = list(self._contexts.values())  # as they are now, whoever changes them meanwhile
        for context in contexts:
            context.worker_ended(worker_id)
        unheard = [id for id, receiver in list(self._unheard) if receiver == worker_id]
        ids = [context.context_id for context in contexts]
        orphans = [id for id in ids if first <= id < last]
        if contexts or unheard:
            # Whoever brings this news may be a task of another worker, with a clock of its own.
            self._worker.runtime.spawn(
                self._do_without, worker_id, unheard, orphans, name="peer lost", worker=self._worker
            )

    def group_left(self) -> None:
        """Release what other workers made: their releases will not come to a worker that has left
        their group without waiting for them. Beyond PyTorch, where such contexts stay for ever.
        """
        for context_id in list(self._contexts):
            if context_id >> LOCAL_ID_BITS != self.worker_id:
                self._release(context_id)

    def _do_without(
        self, worker_id: WorkerId, unheard: list[ContextId], orphans: list[ContextId]
    ) -> None:
        for context_id in unheard:
            self.tell_everybody(context_id, worker_id)
        for context_id in orphans:
            self._release(context_id)
        for context in list(self._contexts.values()):
            context.drop_send_functions_to(worker_id)

    def tell_everybody(self, context_id: ContextId, lost: WorkerId) -> None:
        """``lost`` did not hear of a release, or ended soon after, or has a new process which
        never had the context: so it told nobody either, and nobody here knows whom it had reached.
        Tell all workers. Beyond PyTorch, where a release stops at such a worker.
        """
        agent = self._worker.agent
        if agent is None or not agent.is_running:
            return
        if self._untold.pop(context_id, self) is self:  # unknown here, or told already
            return
        others = [
            info.id for info in agent.get_worker_infos() if info.id not in (lost, self.worker_id)
        ]
        self._send_release_context_rpc(others, context_id)

    def heard(self, context_id: ContextId, worker_id: WorkerId) -> None:
        """A worker has answered a release, or will not any more."""
        self._unheard.pop((context_id, worker_id), None)


class _Reporter:
    """Told that a worker did, or did not, hear of a release."""

    __slots__ = ("_container", "_context_id", "_worker_id")

    def __init__(
        self, container: DistAutogradContainer, worker_id: WorkerId, context_id: ContextId
    ) -> None:
        self._container = container
        self._worker_id = worker_id
        self._context_id = context_id

    def __call__(self, future: Future[Message]) -> None:
        self._container.heard(self._context_id, self._worker_id)
        if future.error is not None:
            _could_not_release(self._worker_id, future.error)
        elif CleanupAutogradContextResp.from_message(future.raw_value()).passed_on:
            return
        self._container.tell_everybody(self._context_id, self._worker_id)


def _could_not_release(worker_id: WorkerId, error: BaseException) -> None:
    logger.error("Could not release Dist Autograd Context on node %s: %s", worker_id, error)
