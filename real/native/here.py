"""Inside a worker process: the link to the coordinator, and joining a group with the agent."""

from __future__ import annotations

import importlib
import os
import pickle
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import torch
import torch._C._distributed_autograd
from torch.distributed import rpc
from torch.distributed.rpc import backend_registry

from squall.real.native import waits
from squall.real.rpc.message_type import MessageType

_registry: Any = backend_registry
_FAULTY = "FAULTY_TENSORPIPE"
#: a thread's place in the order of what a process says; the main thread's
MAIN_LANE = 0
#: the first of the threads that a program or script starts: behind those of the agent
FIRST_LANE = 100


class Here:
    """This process, as the coordinator knows it. One a process."""

    _process: ClassVar[Here | None] = None

    def __init__(self, fd: int, serve: Callable[[Any], Any], processor: int = -1) -> None:
        """``serve`` answers the coordinator's calls, on a thread of its own: any picklable
        value in and out. ``processor``: of all threads that are started from now on; -1 is any."""
        squall_agent = importlib.import_module("squall_agent")  # which the fork server has loaded
        self._agent_module: Any = squall_agent
        self.link: Any = squall_agent.Link(fd)
        squall_agent.Link.set_lane(MAIN_LANE)
        self._serve = serve
        self._agents: list[Any] = []
        self.link.on_call(self._answer)
        Here._process = self
        waits.install(self.link, self.now)
        self.link.start(processor)

    def _answer(self, what: bytes) -> bytes:
        try:
            return pickle.dumps((True, self._serve(pickle.loads(what))))
        except Exception:
            return pickle.dumps((False, traceback.format_exc()))

    @classmethod
    def process(cls) -> Here:
        assert cls._process is not None, "this is no worker process"
        return cls._process

    def ask(self, *question: Any) -> Any:
        """Ask the coordinator, and block until it answers."""
        return pickle.loads(self.link.ask("P", pickle.dumps(question)))

    def ask_then(self, question: tuple[Any, ...], then: Callable[[bytes], object]) -> int:
        """Ask the coordinator, and go on; ``then`` is called with the answer, pickled. The number of the question."""
        number: int = self.link.ask_then("P", pickle.dumps(question), then)
        return number

    def tell(self, *what: Any) -> None:
        """Tell the coordinator what has no answer: nobody waits, and no time passes."""
        self.link.tell("P", pickle.dumps(what))

    def now(self) -> float:
        """Seconds of virtual time."""
        now: float = self.link.now()
        return now

    def sleep(self, seconds: float) -> None:
        """Block for ``seconds`` of virtual time."""
        self.ask("sleep", float(seconds))

    def hook_context(self) -> int | None:
        """The context whose gradient the running hook of a leaf is called with."""
        context_id: int = self._agent_module.hook_context()
        return None if context_id < 0 else context_id

    def set_lane(self, lane: int) -> None:
        self._agent_module.Link.set_lane(lane)

    def agent(
        self,
        name: str,
        rank: int,
        names: Mapping[int, str],
        timeout_s: float,
        threads: int,
        *,
        is_static_group: bool = True,
    ) -> Any:
        """An agent that has not started; ``names`` of its group, by rank."""
        agent = self._agent_module.Agent(
            self.link, name, rank, names, timeout_s, threads, is_static_group
        )
        self._agents.append(agent)  # the link's thread may be looking at it when it is dropped
        return agent

    def join_group(
        self, name: str, rank: int, names: Mapping[int, str], *, timeout_s: float, threads: int
    ) -> None:
        """What ``init_rpc`` does for a group whose names are known: autograd, agent, barrier
        (torch/distributed/rpc/__init__.py and backend_registry.py)."""
        torch._C._distributed_autograd._init(rank)
        self.start_agent(self.agent(name, rank, names, timeout_s, threads), timeout_s)

    def start_agent(self, agent: Any, timeout_s: float) -> None:
        rpc.api._init_rpc_states(agent)
        self.ask("barrier", "start")  # nobody is called before it can be
        rpc.api._all_gather(None, timeout=timeout_s)
        self.ask("barrier", "init")

    def be_the_network(self) -> None:
        """From now on ``init_rpc`` makes agents whose network is the coordinator, and these are what
        PyTorch calls a TensorPipeAgent."""
        _registry.init_backend = self._init_backend
        for module in (torch._C._distributed_rpc, rpc):
            module.__dict__["TensorPipeAgent"] = self._agent_module.Agent

    def _init_backend(
        self,
        backend: Any,
        store: Any,
        name: str,
        rank: int,
        world_size: int | None,
        rpc_backend_options: Any,
    ) -> Any:
        """In the place of ``backend_registry.init_backend``, for backends of PyTorch's own.

        Raises TypeError for options of another backend, and RuntimeError if the group cannot be.
        """
        options: Any = rpc_backend_options
        if backend.name not in ("TENSORPIPE", _FAULTY):
            return backend.value.init_backend_handler(store, name, rank, world_size, options)
        wanted: Any = rpc.TensorPipeRpcBackendOptions
        if backend.name == _FAULTY:
            testing: Any = importlib.import_module("torch.distributed.rpc._testing")
            wanted = testing.FaultyTensorPipeRpcBackendOptions
        if not isinstance(options, wanted):
            raise TypeError(f"`rpc_backend_options` must be a `{wanted.__name__}`. {options}")
        faults = None
        if backend.name == _FAULTY:
            faults = options.num_fail_sends, options.messages_to_fail, options.messages_to_delay
        members: AbstractContextManager[None] = nullcontext()
        if not world_size:
            members = _registry._group_membership_management(store, name, True)
        with members:
            names = self.ask("join", name, rank, world_size or None, "RANK" in os.environ, faults)
            if isinstance(names, Exception):
                raise names
            agent = self.agent(
                name, rank, names, options.rpc_timeout, options.num_worker_threads,
                is_static_group=bool(world_size),
            )  # fmt: skip
            if faults is not None:
                failing = {MessageType[each].value for each in options.messages_to_fail}
                agent.fail_sends(options.num_fail_sends, failing)
            if world_size:
                self.start_agent(agent, options.rpc_timeout)
                return agent
            agent.store, agent._get_backend_options = store, lambda: options
            rpc.api._init_rpc_states(agent)
            try:
                _registry._set_devices_and_reverse_device_map(agent)
            except BaseException:
                rpc.shutdown()
                raise
            return agent


def debug_info() -> dict[str, int]:
    """Counters of RRefs, of the agent and of autograd; none if RPC does not run here."""
    if not torch._C._distributed_rpc._is_current_rpc_agent_set():
        return {}
    info: dict[str, Any] = dict(rpc._get_debug_info())
    return {key: int(value) for key, value in info.items()}
