"""The public RPC API on a simulated cluster: what calls give, and what they raise."""

from __future__ import annotations

import pytest
import torch

from squall.real.autograd import api as dist_autograd
from squall.real.future import Future
from squall.real.rpc import api, options, public
from squall.real.rpc.all_gather import _all_gather, _broadcast_to_followers
from squall.real.rpc.functions import async_execution
from squall.real.rpc.message_type import MessageType
from squall.real.rpc.state import rpc_state
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.cluster import Cluster


def run(main, *others, workers: int = 2, **kwargs):
    """Run ``main()`` on worker 0 and ``others`` on the next ones; what ``main`` returned."""
    with Cluster(workers, **kwargs) as cluster:
        return cluster.run([main, *others])[0]


def add(x, y, *, scale=1):
    return (x + y) * scale


def where():
    return api.get_worker_info().name


def fail(kind, *args):
    raise kind(*args)


def sleep(seconds):
    current_task().runtime.sleep(seconds)
    return seconds


class OwnError(Exception):
    pass


class OwnValueError(ValueError):
    pass


@async_execution
def relay(to, x):
    return api.rpc_async(to, add, args=(x, 1)).then(lambda future: future.wait() * 10)


@async_execution
def no_future():
    return 3


# -- calls --------------------------------------------------------------------------------------


def test_a_worker_is_called_by_name_by_id_and_by_worker_info():
    def main():
        info = api.get_worker_info("worker1")
        assert (info.name, info.id) == ("worker1", 1)
        assert api.get_worker_info().name == "worker0"
        return [api.rpc_sync(to, where) for to in ("worker1", 1, info, "worker0")]

    assert run(main) == ["worker1", "worker1", "worker1", "worker0"]


def test_arguments_and_results_travel_and_are_nobody_elses():
    def main():
        x = torch.ones(2)
        result = api.rpc_sync("worker0", add, args=(x, 0), kwargs={"scale": 3})
        x.fill_(7)
        builtin = api.rpc_sync("worker1", torch.add, args=(torch.ones(2), 1), kwargs={"alpha": 2})
        return result.tolist(), builtin.tolist(), api.rpc_sync("worker1", add, args=["a", "b"])

    assert run(main) == ([3.0, 3.0], [3.0, 3.0], "ab")


def test_an_async_call_is_a_future_and_wait_all_waits_for_those_made_inside():
    def main():
        now = current_task().runtime.now
        with api._wait_all():
            futures = [api.rpc_async("worker1", sleep, args=(s,)) for s in (0.5, 0.25)]
            with api._wait_all():
                api.rpc_async("worker1", sleep, args=(0.125,))
            assert now() < 0.25
        assert all(future.done() for future in futures)
        return [future.value() for future in futures]

    assert run(main) == [0.5, 0.25]


def test_wait_all_raises_what_a_call_inside_raised():
    def main():
        with pytest.raises(ValueError, match="no"), api._wait_all():
            api.rpc_async("worker1", fail, args=(ValueError, "no"))

    run(main)


def test_an_async_function_answers_when_its_future_completes():
    def main():
        assert api.rpc_sync("worker1", relay, args=("worker0", 1)) == 20
        assert api.remote("worker1", relay, args=("worker0", 2)).to_here() == 30
        with pytest.raises(RuntimeError, match=r"must return a torch.futures.Future object, but"):
            api.rpc_sync("worker1", no_future)

    run(main)


def test_the_grad_mode_of_the_call_holds_while_its_reply_is_read():
    x = torch.ones(2, requires_grad=True)

    def main():
        with torch.no_grad():
            future = api.rpc_async("worker1", add, args=(x, 1))
        assert isinstance(future, Future)
        return future.wait().requires_grad

    run(main)


# -- what calls raise ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        (ValueError, ValueError),
        (OwnValueError, ValueError),
        (TypeError, TypeError),
        (KeyError, RuntimeError),
        (OwnError, RuntimeError),
        (RuntimeError, RuntimeError),
    ],
)
def test_only_value_and_type_errors_keep_their_type_through_a_call(kind, raised, capsys):
    def main():
        with pytest.raises(raised) as caught:
            api.rpc_sync("worker1", fail, args=(kind, "boo"))
        with pytest.raises(kind):
            api.remote("worker1", fail, args=(kind, "boo")).to_here()
        return caught.value

    error = run(main)
    assert type(error) is raised
    assert str(error).startswith(f"{kind.__name__}: ")
    assert "On WorkerInfo(id=1, name=worker1):" in str(error) and "in fail" in str(error)
    assert "On WorkerInfo(id=1, name=worker1):" in capsys.readouterr().err


def test_bad_calls_raise_at_the_call_with_torchs_texts():
    def main():
        for to, text in (
            ("nobody", "name:worker0,rank:0 could not find destination name nobody"),
            (7, "name:worker0,rank:0 could not find destination id 7"),
        ):
            with pytest.raises(RuntimeError) as caught:
                api.rpc_sync(to, where)
            assert str(caught.value) == text
        with pytest.raises(ValueError, match=r"Cannot get WorkerInfo from name 1.5"):
            api.rpc_sync(1.5, where)
        with pytest.raises(TypeError, match=r"function should be callable."):
            api.rpc_async("worker1", 3)
        with pytest.raises(AttributeError, match=r"Can't (pickle|get) local object"):
            api.rpc_sync("worker1", lambda: 0)
        with pytest.raises(TypeError, match=r"cannot pickle '(_io\.)?TextIOWrapper' "):
            api.remote("worker1", add, args=(open("/dev/null", encoding="utf-8"),))  # noqa: SIM115
        with pytest.raises(TypeError, match="timeout"):
            api.rpc_sync("worker1", where, timeout="soon")
        with pytest.raises(RuntimeError, match="failed to match any schema"):
            api.rpc_sync("worker1", torch.add, args=(torch.ones(2),))

    run(main)


def test_a_failed_dump_leaves_no_fork_behind():
    def main():
        rref = api.RRef(1)
        with pytest.raises(AttributeError):
            api.rpc_sync("worker1", add, args=(rref, lambda: 0))
        return api._rref_context_get_debug_info()["num_forks"]

    assert run(main) == "0"


def test_a_slow_call_times_out_by_its_own_limit_or_the_default():
    def main():
        with pytest.raises(RuntimeError, match=r"RPC ran for more than set timeout \(250 ms\)"):
            api.rpc_sync("worker1", sleep, args=(1.0,), timeout=0.25)
        assert public.get_rpc_timeout() == 60.0
        public._set_rpc_timeout(0.5)
        with pytest.raises(RuntimeError, match=r"\(500 ms\)"):
            api.rpc_sync("worker1", sleep, args=(1.0,))
        assert api.rpc_sync("worker1", sleep, args=(1.0,), timeout=0) == 1.0
        public._set_rpc_timeout(0)
        assert api.rpc_sync("worker1", sleep, args=(100.0,)) == 100.0

    run(main)


def test_nothing_can_be_called_before_init_or_after_shutdown(caplog):
    text = "RPC has not been initialized. Call torch.distributed.rpc.init_rpc first."
    checked = []

    def check():
        for call in (
            lambda: api.rpc_sync("worker1", where),
            lambda: api.rpc_async("worker1", where),
            lambda: api.remote("worker1", where),
            api.get_worker_info,
            api.shutdown,
            api._wait_all_workers,
            public._get_debug_info,
        ):
            with pytest.raises(RuntimeError) as caught:
                call()
            assert str(caught.value) == text
        with pytest.raises(RuntimeError, match="Current RPC agent is not set!"):
            public.get_rpc_timeout()
        checked.append(True)

    check()  # outside every worker

    def main(rank):
        api.shutdown()
        check()

    with Cluster(2) as cluster:
        cluster.runtime.spawn(check, name="early", worker=cluster.workers[0])
        cluster.run(main, shutdown=False)
    assert len(checked) == 4
    assert not caplog.records, "it is refused, and has not failed on the way"


# -- gathering ----------------------------------------------------------------------------------


def test_all_gather_gives_everybody_everything():
    def main(rank):
        first = _all_gather(rank * 10)
        two = ["worker0", "worker2"]
        some = _all_gather(f"from {rank}", two) if rank != 1 else None
        api._barrier(["worker0", "worker1", "worker2"])
        return first, some

    with Cluster(3, latency="lognormal:0.01:1", seed=3) as cluster:
        results = cluster.run(main)
    everything = {"worker0": 0, "worker1": 10, "worker2": 20}
    assert [first for first, _ in results] == [everything] * 3
    assert results[0][1] == results[2][1] == {"worker0": "from 0", "worker2": "from 2"}


def test_a_barrier_tells_that_all_have_come_and_no_more():
    told = []

    def note(sequence_id, objects):
        told.append(objects)
        _broadcast_to_followers(sequence_id, objects)

    def main(rank):
        rpc_state(current_worker()).replaced["_broadcast_to_followers"] = note
        api._barrier(["worker0", "worker1", "worker2"])

    with Cluster(3) as cluster:
        cluster.run(main, shutdown=False)
    assert told == [{}, {}]


def test_a_gather_that_somebody_misses_ends_in_an_error_and_leaves_nothing(caplog):
    def main(rank):
        if rank == 2:
            sleep(5)
            return None
        with pytest.raises(RuntimeError, match="timed out"):
            _all_gather(rank, timeout=1)
        sleep(5)
        return rpc_state(current_worker()).gathers

    with Cluster(3) as cluster:
        with pytest.raises(RuntimeError):  # worker2 never takes part: neither in the shutdown
            cluster.run(main)

    def with_two(rank):
        return main(rank) if rank < 2 else sleep(12)

    with Cluster(3) as cluster:
        results = cluster.run(with_two, shutdown=False)
    assert results[:2] == [{}, {}]


# -- joining and leaving ------------------------------------------------------------------------


def on_workers(count, main):
    """Run ``main(rank)`` on workers that have not joined any group."""
    with Cluster(count) as cluster:
        results = [None] * count

        def process(rank):
            results[rank] = main(rank)

        for rank, worker in enumerate(cluster.workers):
            cluster.runtime.spawn(process, rank, name="main", worker=worker, daemon=False)
        cluster.runtime.run()
    return results


def init(name, rank, world_size, **kwargs):
    how = options.TensorPipeRpcBackendOptions(init_method="sim://here", **kwargs)
    api.init_rpc(name, rank=rank, world_size=world_size, rpc_backend_options=how)


def error_of(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def test_before_init_there_are_no_contexts():
    def main(_):
        return {
            error_of(dist_autograd._new_context),
            error_of(dist_autograd.get_gradients, 1),
            error_of(dist_autograd.backward, 1, [torch.ones((), requires_grad=True)]),
            error_of(dist_autograd._get_debug_info),
        }

    (text,) = on_workers(1, main)[0]
    assert text.startswith("RuntimeError: Need to initialize distributed autograd")


def test_a_worker_can_join_leave_and_join_again():
    def main(rank):
        names = []
        for _ in range(3):
            init(f"w{rank}", rank, 2)
            names.append(api.rpc_sync(1 - rank, where))
            assert error_of(init, "again", rank, 2) == "RuntimeError: RPC is already initialized"
            api.shutdown()
        return names

    assert on_workers(2, main) == [["w1"] * 3, ["w0"] * 3]


def test_groups_that_contradict_themselves_are_refused_on_every_worker():
    same = "RuntimeError: RPC worker name w is not unique. Workers {} and {} share the same name."
    assert on_workers(2, lambda rank: error_of(init, "w", rank, 2)) == [
        same.format(0, 1),
        same.format(1, 0),
    ]
    for main in (
        lambda rank: error_of(init, f"w{rank}", 0, 2),
        lambda rank: error_of(init, f"w{rank}", rank, 2 + rank),
        lambda rank: error_of(init, f"w{rank}", 2 * rank, 2),
    ):
        results = on_workers(2, main)
        assert results[0] == results[1] and results[0].startswith("RuntimeError: ")


def test_a_worker_that_never_comes_is_waited_for_half_an_hour():
    def main(rank):
        return error_of(init, "w0", 0, 2) if rank == 0 else None

    error = on_workers(2, main)[0]
    assert "waiting for clients. 1/2 clients joined." in error


def test_bad_arguments_of_init_rpc(monkeypatch):
    for variable in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)
    tcp = options.TensorPipeRpcBackendOptions(init_method="tcp://localhost")
    odd = options.TensorPipeRpcBackendOptions(init_method="foo://x")
    # A scheme that only a world of another kind has.
    strange = options.TensorPipeRpcBackendOptions(init_method="queue://x")

    def main(_):
        return [
            error_of(api.init_rpc, *args, **kwargs)
            for args, kwargs in (
                (("w",), {"backend": "x", "rank": 0, "world_size": 1}),
                (("w",), {"backend": MessageType.PYTHON_CALL, "rank": 0, "world_size": 1}),
                (("w",), {"rpc_backend_options": 3, "rank": 0, "world_size": 1}),
                (("w",), {"rank": 0, "world_size": 1}),
                (("w",), {"rank": 0, "world_size": 1, "rpc_backend_options": tcp}),
                (("w",), {"rank": 0, "world_size": 1, "rpc_backend_options": odd}),
                (("w",), {"rank": 0, "world_size": 1, "rpc_backend_options": strange}),
                (("w",), {"rank": "0", "world_size": 1}),
                (("w",), {"rank": 0, "world_size": "1"}),
            )
        ] + [
            error_of(init, "", 0, 1),
            error_of(init, "a b", 0, 1),
            error_of(init, "x" * 128, 0, 1),
            error_of(init, 3, 0, 1),
        ]

    missing = "ValueError: Error initializing torch.distributed using "
    name = (
        "RuntimeError: Worker name must match ^[A-Za-z0-9-_:]*$, and must be non-empty and "
        "shorter than 128 chars, but got "
    )
    assert on_workers(1, main)[0] == [
        *("TypeError: Argument backend must be a member of BackendType",) * 2,
        "TypeError: Argument rpc_backend_options must be an instance of RpcBackendOptions",
        missing + "env:// rendezvous: environment variable MASTER_ADDR expected, but not set",
        missing + "tcp:// rendezvous: port number missing",
        "RuntimeError: No rendezvous handler for foo://",
        "RuntimeError: No rendezvous handler for queue://",
        "RuntimeError: `rank` must be an integer. 0",
        "RuntimeError: `world_size` must be an integer. 1",
        name,
        name + "a b",
        name + "x" * 128,
        "RuntimeError: Argument 3 must be of type <class 'str'> but got type <class 'int'>",
    ]


def test_shutdown_without_grace_waits_for_nobody():
    def main(rank):
        init(f"w{rank}", rank, 2)
        if rank == 0:
            api.shutdown(graceful=False)
            return public._is_current_rpc_agent_set()
        sleep(1)
        return error_of(api.rpc_sync, "w0", where)

    gone, error = on_workers(2, main)
    assert gone is False and error is not None


def test_shutdown_waits_for_work_under_way_elsewhere():
    def main(rank):
        if rank == 0:
            api.rpc_async("worker1", sleep, args=(3,))
        api.shutdown()
        return current_task().runtime.now()

    with Cluster(2) as cluster:
        assert min(cluster.run(main, shutdown=False)) >= 3


# -- backends and options -----------------------------------------------------------------------


def test_backends_are_registered_once_and_for_one_worker():
    def main(rank):
        registry = public.backend_registry
        assert public.BackendType.TENSORPIPE.name == "TENSORPIPE"
        assert repr(registry.BackendType.SQUALL) == "BackendType.SQUALL"
        assert error_of(registry.register_backend, "TENSORPIPE", None, None) == (
            "RuntimeError: RPC backend TENSORPIPE: already registered"
        )
        made = []
        mine = registry.register_backend(
            "MINE",
            lambda rpc_timeout, init_method, **_: options.RpcBackendOptions(3, "sim://mine"),
            lambda **kwargs: made.append(kwargs) or _made_agent(registry, **kwargs),
        )
        assert registry.backend_registered("MINE")
        api.init_rpc(f"w{rank}", backend=mine, rank=rank, world_size=2)
        assert made[0]["name"] == f"w{rank}" and made[0]["world_size"] == 2
        result = api.rpc_sync(1 - rank, where)
        api.shutdown()
        return result

    def _made_agent(registry, **kwargs):
        kwargs["rpc_backend_options"] = options.TensorPipeRpcBackendOptions(init_method="sim://x")
        return registry.init_backend(registry.BackendType.SQUALL, **kwargs)

    assert on_workers(2, main) == ["w1", "w0"]
    assert not public.backend_registry.backend_registered("MINE")


def test_options_are_checked_as_torch_checks_them():
    make = options.TensorPipeRpcBackendOptions
    for kwargs, text in (
        ({"num_worker_threads": 0}, "num_worker_threads must be positive, got 0"),
        ({"rpc_timeout": -1}, "RPC Timeout must be non-negative"),
        ({"_transports": ["zz"]}, "Unknown transport: zz"),
    ):
        with pytest.raises(RuntimeError, match=text):
            make(**kwargs)
    for kwargs in ({"rpc_timeout": "a"}, {"num_worker_threads": 1.5}, {"init_method": 3}):
        with pytest.raises(TypeError):
            make(**kwargs)
    with pytest.raises(ValueError, match="expect a list of CUDA devices"):
        make(devices=["cpu"])
    made = make(device_maps={"w1": {"cpu": "cuda:1"}})
    made.set_device_map("w1", {"cuda:0": "cuda:0"})
    with pytest.raises(ValueError, match="1-to-1 mapping"):
        made.set_device_map("w1", {"cuda:0": "cuda:2"})
    with pytest.raises(ValueError, match="1-to-1 mapping"):
        make(device_maps={"w1": {"cuda:0": "cuda:1", "cuda:2": "cuda:1"}})


def test_a_device_map_to_a_worker_that_is_not_there_is_refused_everywhere():
    def main(rank):
        maps = {"nobody": {"cpu": "cpu"}} if rank == 0 else None
        return error_of(init, f"w{rank}", rank, 2, device_maps=maps)

    for error in on_workers(2, main):
        assert error.startswith("ValueError: Node w0 has invalid target node names")


# -- looking ------------------------------------------------------------------------------------


def test_debug_info_has_torchs_keys():
    info = run(public._get_debug_info)
    assert info["num_owner_rrefs"] == info["num_pending_users"] == info["num_forks"] == "0"
    assert info["agent.thread_pool_size"] == "16"
    assert info["num_autograd_contexts"] == info["num_current_backward_passes"] == 0


class Upper(public.internal._InternalRPCPickler):
    def serialize(self, obj):
        return super().serialize(obj._replace(args=tuple(a.upper() for a in obj.args)))


def test_a_users_pickler_pickles_the_calls_made_inside():
    def main():
        with api._use_rpc_pickler(Upper()):
            inside = api.rpc_sync("worker1", add, args=("a", "b"))
        return inside, api.rpc_sync("worker1", add, args=("a", "b"))

    assert run(main) == ("AB", "ab")


def test_a_function_that_wants_to_end_the_process_ends_the_call_alone():
    def main():
        with pytest.raises(RuntimeError, match="SystemExit: 3"):
            api.rpc_sync("worker1", fail, args=(SystemExit, 3))
        return api.rpc_sync("worker1", where)

    assert run(main) == "worker1"
