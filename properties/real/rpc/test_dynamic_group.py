"""Groups without a world size: workers come and go, and those that stay learn of it."""

from __future__ import annotations

import pytest
import torch

from squall.real.autograd import api as dist_autograd
from squall.real.rpc import api, options
from squall.real.rpc.init import init_rpc
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.cluster import Cluster
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.world.scheduler import SimRuntime

MEET = "sim://dynamic"


def join(rank: int, **kwargs: object) -> None:
    how = options.TensorPipeRpcBackendOptions(init_method=MEET)
    init_rpc(f"worker{rank}", rank=rank, rpc_backend_options=how, **kwargs)


def names() -> list[str]:
    agent = current_worker().agent
    assert agent is not None
    return [info.name for info in agent.get_worker_infos()]


def sleep(seconds: float) -> None:
    current_task().runtime.sleep(seconds)


def play(*mains: object) -> SimRuntime:
    """Run ``mains[rank]()`` on a worker each, before any group exists."""
    cluster = Cluster(len(mains), latency="constant:0.001")
    with cluster:
        for worker, main in zip(cluster.workers, mains, strict=True):
            cluster.runtime.spawn(main, name="main", worker=worker, daemon=False)
        cluster.runtime.run()
        assert not cluster.runtime.foreground
    return cluster.runtime


def test_who_comes_later_can_call_and_be_called():
    log: list[object] = []

    def first() -> None:
        join(0)
        log.append(names())
        sleep(2)
        log.append(names())
        log.append(api.rpc_sync("worker1", torch.add, args=(torch.tensor(1), 2)).item())
        sleep(2)
        log.append(names())
        api.shutdown()

    def second() -> None:
        sleep(1)
        join(1)
        log.append(api.rpc_sync("worker0", torch.mul, args=(torch.tensor(3), 4)).item())
        sleep(2)
        api.shutdown()
        assert current_worker().agent is None

    play(first, second)
    assert log == [["worker0"], 12, ["worker0", "worker1"], 3, ["worker0"]]


def test_all_may_come_and_go_at_once():
    def main(rank: int) -> object:
        def run() -> None:
            join(rank)
            assert f"worker{rank}" in names()
            api.shutdown()

        return run

    play(*(main(rank) for rank in range(5)))


def times(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_another_process_of_a_rank_has_contexts_of_its_own():
    gradients: list[object] = []

    def stays() -> None:
        join(0)
        sleep(9)
        api.shutdown()

    def trains(seconds: float) -> None:
        sleep(seconds)
        join(1)
        x = torch.ones(2, requires_grad=True)
        with dist_autograd.context() as context_id:
            loss = api.rpc_sync("worker0", times, args=(x,)).sum()
            dist_autograd.backward(context_id, [loss])
            gradients.append(dist_autograd.get_gradients(context_id)[x].tolist())
        api.shutdown()

    play(stays, lambda: trains(1), lambda: trains(4))
    assert gradients == [[2, 2], [2, 2]]


def test_a_name_or_a_rank_is_taken_once():
    errors: list[str] = []

    def first() -> None:
        join(0)
        sleep(1)
        api.shutdown()

    def late(seconds: float, name: str, rank: int) -> None:
        sleep(seconds)
        how = options.TensorPipeRpcBackendOptions(init_method=MEET)
        with pytest.raises(RuntimeError) as caught:
            init_rpc(name, rank=rank, rpc_backend_options=how)
        errors.append(str(caught.value))

    play(first, lambda: late(0.5, "worker0", 7), lambda: late(0.6, "worker7", 0))
    assert errors == [
        "RPC worker name worker0 is not unique. Workers 0 and 7 share it",
        "rank argument 0 is taken by another worker of the group",
    ]


def test_a_group_has_a_size_or_has_none():
    errors: list[str] = []

    def fixed() -> None:
        join(0, world_size=1)
        sleep(2)
        api.shutdown()

    def later() -> None:
        sleep(1)
        with pytest.raises(RuntimeError) as caught:
            join(1)
        errors.append(str(caught.value))

    play(fixed, later)
    assert errors == [
        "RPC group mixes statically and dynamically initialized members which is not supported."
    ]


def test_a_rank_is_needed():
    def main() -> None:
        how = options.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:23456")
        with pytest.raises(ValueError, match="tcp:// rendezvous: rank parameter missing"):
            init_rpc("worker0", rpc_backend_options=how)

    play(main)


def where_it_is(x: torch.Tensor) -> tuple[str, torch.Tensor]:
    return str(x.device), x * 2


def join_with_map(rank: int, to: str, map_: dict[str, str]) -> None:
    how = options.TensorPipeRpcBackendOptions(init_method=MEET, device_maps={to: map_})
    init_rpc(f"worker{rank}", rank=rank, rpc_backend_options=how)


def play_on_stand_in(*mains: object) -> None:
    with campaign_settings("stand-in"), Cluster(len(mains), device="stand-in") as cluster:
        for worker, main in zip(cluster.workers, mains, strict=True):
            cluster.runtime.spawn(main, name="main", worker=worker, daemon=False)
        cluster.runtime.run()
        assert not cluster.runtime.foreground


def test_maps_of_who_comes_later_hold_for_calls_replies_and_who_was_there_before():
    log: list[object] = []

    def first() -> None:
        join_with_map(0, "worker1", {"standin:0": "standin:2"})  # who is not there yet
        sleep(2)
        x = torch.ones(2, device="standin:0")
        there, back = api.rpc_sync("worker1", where_it_is, args=(x,))
        log.append(("first", there, str(back.device), back.cpu().sum().item()))
        sleep(2)
        api.shutdown()

    def second() -> None:
        sleep(1)
        join_with_map(1, "worker0", {"standin:1": "standin:3"})
        x = torch.ones(2, device="standin:1")
        there, back = api.rpc_sync("worker0", where_it_is, args=(x,))
        log.append(("second", there, str(back.device), back.cpu().sum().item()))
        sleep(2)
        api.shutdown()

    play_on_stand_in(first, second)
    assert log == [
        ("second", "standin:3", "standin:1", 4.0),
        ("first", "standin:2", "standin:0", 4.0),
    ]


def test_a_map_that_is_not_valid_keeps_its_worker_out():
    log: list[str] = []

    def only() -> None:
        with pytest.raises(ValueError) as raised:
            join_with_map(0, "worker1", {"standin:7": "standin:2"})
        log.append(str(raised.value).splitlines()[0])

    play_on_stand_in(only)
    assert log == [
        "Node worker0 has source devices with invalid indices in its device map for worker1"
    ]
