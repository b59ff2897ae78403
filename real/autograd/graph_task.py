"""What one backward pass keeps on one worker (torch/csrc/autograd/graph_task.h)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import torch

from squall.real.autograd.input_buffer import InputBuffer
from squall.real.autograd.node import Edge, Node
from squall.real.future import Future
from squall.real.runtime import current_task, current_task_or_none
from squall.real.streams import current_streams

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from torch import Tensor

    from squall.real.autograd.functions import SendRpcBackward
    from squall.real.ids import AutogradMessageId, ContextId, PassId
    from squall.real.rpc.message import Message
    from squall.real.rpc.profiling import LegacyProfiler
    from squall.real.runtime import Runtime

#: replaces a captured gradient; is given the inputs of the captured node, which it may change
GradCaptureHook = Callable[["list[Tensor | None]"], "Tensor | None"]

NO_DEVICE = -2
CPU_DEVICE = -1

_TASK_KEY = "current graph task"


class Capture:
    """Input ``input_idx`` of a node is output ``output_idx`` of the pass."""

    __slots__ = ("hooks", "input_idx", "output_idx")

    def __init__(self, input_idx: int, output_idx: int) -> None:
        self.input_idx = input_idx
        self.output_idx = output_idx
        self.hooks: list[GradCaptureHook] = []


class ExecInfo:
    """What a pass does with a node: ``needed`` runs it, ``captures`` take its inputs."""

    __slots__ = ("captures", "needed")

    def __init__(self, needed: bool = False) -> None:
        self.needed = needed
        self.captures: list[Capture] = []

    def should_execute(self) -> bool:
        return self.needed or bool(self.captures)


#: the entry that all nodes share which are simply run; never changed
NEEDED = ExecInfo(needed=True)
_NOT_NEEDED = ExecInfo()


_ids = itertools.count(1 << 40)


class PassContext(Protocol):
    """The autograd context that a pass belongs to; see
    :class:`squall.real.autograd.context.DistAutogradContext`."""

    context_id: ContextId
    released: bool

    def give_up_pass(self, graph_task: GraphTask) -> None: ...


class NodeQueue(Protocol):
    """Where nodes wait that are ready; see :class:`squall.real.autograd.ready_queue.ReadyQueue`."""

    def push(self, item: NodeTask, increment_outstanding_tasks: bool = True) -> None: ...


class PassStreams(Protocol):
    """The streams of a pass on devices; see
    :class:`squall.real.autograd.device_threads.DeviceThreads`."""

    def on_caller_streams(self, graph_task: GraphTask) -> AbstractContextManager[object]: ...

    def hand_over(
        self, graph_task: GraphTask, edges: Iterable[Edge], grads: Iterable[Tensor | None]
    ) -> None: ...

    def on_consumer_stream(
        self, node: Node, grad: Tensor | None, graph_task: GraphTask
    ) -> AbstractContextManager[object]: ...


class GraphTask:
    """One pass on one worker, shared by all tasks that run parts of it.

    ``lock`` guards ``not_ready``, ``dependencies``, ``captured_vars`` and ``leaf_streams``;
    user code never runs under it. ``outstanding_tasks`` is changed by appending to and popping
    from a list, which is atomic between threads.
    """

    def __init__(
        self,
        runtime: Runtime,
        context: PassContext,
        *,
        keep_graph: bool,
        pass_id: PassId = -1,
        reentrant_depth: int = 0,
        cpu_ready_queue: NodeQueue | None = None,
        graph_roots: Iterable[Node] = (),
        exit_on_error: bool = False,
    ) -> None:
        #: far from the numbers that torch's own engine gives
        self.id = next(_ids)
        #: the autograd context that the pass belongs to
        self.context = context
        #: which pass of the context: all that is sent on for it says so
        self.pass_id = pass_id
        self.keep_graph = keep_graph
        self.reentrant_depth = reentrant_depth
        self.cpu_ready_queue = cpu_ready_queue
        self.graph_roots = list(graph_roots)
        self.exit_on_error = exit_on_error
        self.lock = runtime.lock("graph task")
        self.outstanding: list[None] = []
        #: the pass is over here: what still runs of it comes to nothing. Asked again after user code
        self.has_error = False
        #: gradients that were sent on and have not been answered, and some that have
        self.outstanding_rpcs: list[Future[Message]] = []
        self.not_ready: dict[Node, InputBuffer] = {}
        self.dependencies: dict[Node, int] = {}
        #: keeps every node of the pass alive, so that a node's identity can be a key
        self.nodes_in_graph: dict[Node, None] = {}
        #: empty: every node is run. Else only nodes with an entry that should execute
        self.exec_info: dict[Node, ExecInfo] = {}
        self.captured_vars: list[Tensor | None] = []
        self.leaf_streams: dict[Any, None] = {}
        #: by device, of those that the nodes of the pass are on
        self.caller_current_streams: dict[torch.device, Any] = {}
        #: what hands gradients from stream to stream, while some node is on a device
        self.devices: PassStreams | None = None
        self.owner = NO_DEVICE
        self.future_result: Future[list[Tensor | None]] = Future(
            runtime=runtime, what="backward pass"
        )
        self.final_callbacks: list[Callable[[], object]] = []
        #: breadth-first numbers of the nodes; only while somebody traces
        self.numbers: dict[Node, int] = {}
        #: the send functions that the context had when the pass began; only while somebody traces
        self.sends: dict[AutogradMessageId, SendRpcBackward] = {}
        #: the queue of a node's device, or None while all nodes are on the CPU
        self.device_queue: Callable[[Node], NodeQueue | None] | None = None
        #: of the task that started the pass, if it is being profiled
        self.profiler: LegacyProfiler | None = None
        #: tasks that run a part of the pass right now
        self.runners: list[None] = []
        self._open = [True]

    @property
    def outstanding_tasks(self) -> int:
        """Entries that are queued, running, or still to come from other workers."""
        return len(self.outstanding)

    @property
    def future_completed(self) -> bool:
        """Whether somebody has taken it on himself to complete ``future_result``."""
        return not self._open

    def init_to_execute(
        self, graph_root: Node, outputs: list[Edge], *, dead_ends: bool = True
    ) -> None:
        """Fill ``exec_info``: capture ``outputs``, and need whatever lies on a way to one.

        ``dead_ends`` False says that every way from ``graph_root`` through ``nodes_in_graph``
        ends in an output, so that no search is called for.
        """
        exec_info = self.exec_info
        self.captured_vars = [None] * len(outputs)
        if not dead_ends:
            exec_info.update(dict.fromkeys(self.nodes_in_graph, NEEDED))
        for output_idx, (node, input_idx) in enumerate(outputs):
            info = exec_info.get(node)
            if info is None or info is NEEDED:
                info = exec_info[node] = ExecInfo()
            info.captures.append(Capture(input_idx, output_idx))
        if dead_ends:
            self._mark_needed(graph_root)

    def _mark_needed(self, graph_root: Node) -> None:
        """Depth first: a node is needed if something that it leads to is executed."""
        exec_info = self.exec_info
        seen = {graph_root: None}
        stack = [(graph_root, iter(graph_root.next_functions))]
        while stack:
            node, edges = stack[-1]
            for following, _ in edges:
                if following is None or following in seen:
                    continue
                seen[following] = None
                if following not in exec_info:  # an output is not searched beyond
                    stack.append((following, iter(following.next_functions)))
                    break
            else:
                stack.pop()
                needed = any(
                    following is not None and exec_info[following].should_execute()
                    for following, _ in node.next_functions
                )
                exec_info[node] = NEEDED if needed else _NOT_NEEDED

    def stash_current_streams(self) -> None:
        """Remember the current stream of each device that has streams."""
        self.caller_current_streams = current_streams()

    def completed(self) -> bool:
        return not self.outstanding or (self.exit_on_error and self.has_error)

    def mark_as_completed_and_run_post_processing(self) -> None:
        """Complete ``future_result``; whoever comes second finds it done or under way."""
        try:
            self._open.pop()
        except IndexError:
            return
        try:
            self.exec_post_processing()
        except Exception as error:
            self.future_result.try_fail(error)
        else:
            captured, self.captured_vars = self.captured_vars, []
            self.future_result.try_complete(captured)

    def exec_post_processing(self) -> None:
        """Check that nothing is left, run the final callbacks, join the streams.

        Raises RuntimeError if a node was reached but never ready.
        """
        if self.not_ready:
            raise RuntimeError("could not compute gradients for some functions")
        if self.final_callbacks:
            with GraphTaskGuard(self):  # a callback may install another one
                for callback in iter(self._next_callback, None):
                    callback()
        for stream in self.leaf_streams:
            caller = self.caller_current_streams[stream.device]
            if stream != caller:
                caller.wait_event(stream.record_event())

    def _next_callback(self) -> Callable[[], object] | None:
        return self.final_callbacks.pop(0) if self.final_callbacks else None

    def set_exception_without_signal(self, node: Node | None = None) -> None:
        """Stop every runner at its next node. ``future_result`` is left to the caller."""
        self.has_error = True

    def set_exception(self, error: BaseException, node: Node | None = None) -> None:
        """Stop every runner and fail ``future_result``, unless it is completed already."""
        self.set_exception_without_signal(node)
        try:
            self._open.pop()
        except IndexError:
            return
        self.future_result.try_fail(error)


class NodeTask:
    """A node, its inputs, and the pass it belongs to."""

    __slots__ = ("base", "fn", "inputs", "is_shutdown_task")

    def __init__(
        self,
        base: GraphTask | None,
        fn: Node,
        inputs: InputBuffer,
        is_shutdown_task: bool = False,
    ) -> None:
        self.base = base
        self.fn = fn
        self.inputs = inputs
        self.is_shutdown_task = is_shutdown_task


class GraphTaskGuard:
    """Makes a graph task the current one of the running task, and puts the last one back."""

    __slots__ = ("_graph_task", "_last", "_locals")

    def __init__(self, graph_task: GraphTask) -> None:
        self._graph_task = graph_task

    def __enter__(self) -> None:
        self._locals = current_task().locals
        self._last = self._locals.get(_TASK_KEY)
        self._locals[_TASK_KEY] = self._graph_task

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.restore_current_graph_task()

    def restore_current_graph_task(self) -> None:
        self._locals[_TASK_KEY] = self._last


def current_graph_task() -> GraphTask | None:
    """The graph task of which the running task executes a node, or None."""
    task = current_task_or_none()
    return None if task is None else task.locals.get(_TASK_KEY)


_torch_graph_task_id: Callable[[], int] = torch._C._current_graph_task_id


def _current_graph_task_id() -> int:
    """Tells one backward pass from another: hooks of several tensors and checkpoints ask."""
    graph_task = current_graph_task()
    return _torch_graph_task_id() if graph_task is None else graph_task.id


_torch_will_engine_execute_node: Callable[[Node], bool] = torch._C._will_engine_execute_node


def _will_engine_execute_node(node: Node) -> bool:
    """False for every node of a distributed pass, as in torch, whose engine answers for its own
    passes only: a hook of several tensors waits there for ever."""
    return current_graph_task() is None and _torch_will_engine_execute_node(node)


# Torch's own answers are those for "no pass" while nodes are called one by one from Python.
torch._C._current_graph_task_id = _current_graph_task_id
torch._C._will_engine_execute_node = _will_engine_execute_node


def queue_callback(callback: Callable[[], object]) -> None:
    """Run ``callback`` when the current pass has run its last node.

    Raises RuntimeError outside a pass.
    """
    graph_task = current_graph_task()
    if graph_task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    graph_task.final_callbacks.append(callback)
