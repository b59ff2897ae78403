"""Module globals of ``torch.distributed.rpc.api``: each process of a script has its own."""

from __future__ import annotations

from pathlib import Path

from squall.properties.support.playing import play, write

HEAD = """
    import os, time
    import torch.distributed.rpc as rpc
    from torch.distributed.rpc import api
    rank = int(os.environ["RANK"])

    if __name__ == "__main__":
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
"""


def run(folder: Path, body: str) -> list[str]:
    played = play(write(folder, HEAD + body), workers=2, environ={})
    assert [result.error for result in played.results] == [None, None]
    return sorted(played.lines)


def test_the_leak_check_is_a_setting_of_each_process(tmp_path: Path) -> None:
    body = """
        seen = api._ignore_rref_leak
        if rank == 0:
            api._ignore_rref_leak = False
        time.sleep(1)
        print(rank, seen, api._ignore_rref_leak)
        rpc.shutdown()
    """
    assert run(tmp_path, body) == ["0 True False", "1 True True"]


def test_what_a_script_puts_in_the_place_of_an_api_function_is_its_own(tmp_path: Path) -> None:
    body = """
        original = api._wait_all_workers
        if rank == 0:
            assert not hasattr(api._thread_local_var, "future_list")
            with api._wait_all():
                assert api._thread_local_var.future_list == []

            def mine(timeout):
                print("mine", timeout)
                original(timeout)

            api._wait_all_workers = mine
        time.sleep(1)
        print(rank, api._wait_all_workers is original)
        rpc.shutdown(timeout=50)
        if rank == 0:
            del api._wait_all_workers
        print(rank, api._wait_all_workers is original)
    """
    assert run(tmp_path, body) == ["0 False", "0 True", "1 True", "1 True", "mine 50"]


def test_what_else_pytorch_keeps_there_can_be_read(tmp_path: Path) -> None:
    body = """
        with api._use_rpc_pickler("of " + str(rank)):
            time.sleep(1)
            inside = api._default_pickler
        names, gathers = sorted(api._ALL_WORKER_NAMES), api._all_gather_sequence_id_to_states
        print(rank, inside, type(api._default_pickler).__name__, names, gathers)
        rpc.shutdown()
    """
    assert run(tmp_path, body) == [
        f"{rank} of {rank} _InternalRPCPickler ['w0', 'w1'] {{}}" for rank in (0, 1)
    ]
