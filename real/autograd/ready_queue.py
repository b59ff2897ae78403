"""Nodes that are ready to run, in the order torch runs them (torch/csrc/autograd/engine.h)."""

from __future__ import annotations

import itertools
from heapq import heappop, heappush

from squall.real.autograd.graph_task import NodeTask
from squall.real.autograd.input_buffer import InputBuffer
from squall.real.runtime import Runtime

#: sorts before every depth
_SHUTDOWN_DEPTH = 1 << 62


class ReadyQueue:
    """A heap of node tasks for one runner: the deepest reentrant pass first, in it the node
    created last. AccumulateGrad counts as created last of all. Ties go by insertion."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, NodeTask]] = []
        #: a node task that waits alone, which needs no order
        self._only: NodeTask | None = None
        self._insertions = itertools.count()

    def push(self, item: NodeTask, increment_outstanding_tasks: bool = True) -> None:
        graph_task = item.base
        assert graph_task is not None
        if increment_outstanding_tasks:
            graph_task.outstanding.append(None)
        if self._heap:
            self._insert(item)
        elif self._only is None:
            self._only = item
        else:
            self._insert_only()
            self._insert(item)

    def _insert_only(self) -> None:
        if self._only is not None:
            item, self._only = self._only, None
            self._insert(item)

    def _insert(self, item: NodeTask) -> None:
        graph_task = item.base
        assert graph_task is not None
        sequence_nr = item.fn._sequence_nr()
        heappush(
            self._heap,
            (-graph_task.reentrant_depth, -sequence_nr, next(self._insertions), item),
        )

    def push_shutdown_task(self) -> None:
        """Tell whoever pops to end; it comes before everything else."""
        self._insert_only()
        task = NodeTask(None, None, InputBuffer(0), is_shutdown_task=True)
        heappush(self._heap, (-_SHUTDOWN_DEPTH, 0, next(self._insertions), task))

    def take(self) -> NodeTask | None:
        """The first node task, or None if there is none."""
        if self._heap:
            return heappop(self._heap)[3]
        item, self._only = self._only, None
        return item


class SharedReadyQueue(ReadyQueue):
    """A ready queue that several tasks push to and one waits at."""

    def __init__(self, runtime: Runtime, what: str) -> None:
        super().__init__()
        self._lock = runtime.lock(what)
        self._not_empty = runtime.condition(self._lock, what)

    def push(self, item: NodeTask, increment_outstanding_tasks: bool = True) -> None:
        with self._lock:
            super().push(item, increment_outstanding_tasks)
            self._not_empty.notify()

    def push_shutdown_task(self) -> None:
        with self._lock:
            super().push_shutdown_task()
            self._not_empty.notify()

    def pop(self) -> NodeTask:
        """Wait for a node task and take it."""
        with self._lock:
            while (item := self.take()) is None:
                self._not_empty.wait()
            return item
