"""The examples: the same file on stock PyTorch and here prints the same losses."""

from __future__ import annotations

import json
import re

import pytest

from squall.properties.support.commands import squall, stock

EXAMPLES = ["parameter_server", "pipeline", "rref_sharing"]
#: started by torchrun, with process groups
WITH_GROUPS = ["ddp", "ddp_rpc", "fsdp", "pipeline_1f1b"]
LOSS = re.compile(r"^step \d+  loss \S+$", re.M)


def losses(printed: str) -> list[str]:
    found = LOSS.findall(printed)
    assert found, printed
    return found


@pytest.mark.deep("starts processes of PyTorch again and again")
@pytest.mark.parametrize("name", EXAMPLES)
def test_stock_pytorch_and_squall_print_the_same_losses(name: str) -> None:
    script = f"examples/{name}.py"
    real = stock(script)
    assert real.returncode == 0, real.stderr
    for seed in ("0", "7"):
        simulated = squall("run", script, "--seed", seed)
        assert simulated.returncode == 0, simulated.stdout + simulated.stderr
        assert losses(simulated.stdout) == losses(real.stdout)


@pytest.mark.parametrize("name", EXAMPLES)
def test_gradients_are_right_nothing_leaks_and_hash_seeds_do_not_matter(name: str) -> None:
    runs = []
    for hash_seed in ("0", "1", "4242"):
        ended = squall(
            "run", f"examples/{name}.py", "--workers", "4", "--json", PYTHONHASHSEED=hash_seed
        )
        assert ended.returncode == 0, ended.stderr
        runs.append(json.loads(ended.stdout))
    for run in runs:
        assert run["outcome"] == "ok"
        assert run["gradients_equal"] is True
        assert run["gradients"]["compared"] > 0
        assert run["leaked"] == {"rrefs": 0, "contexts": 0}
        assert not any(each["grows"] for each in run["kept"])
    assert len({run["digest"] for run in runs}) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("workers", ["2", "6"])
def test_any_number_of_workers_will_do(name: str, workers: str) -> None:
    ended = squall("run", f"examples/{name}.py", "--workers", workers, "--json")
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert result["gradients_equal"] is True
    assert result["workers"] == int(workers)


@pytest.mark.parametrize("name", EXAMPLES)
def test_another_seed_is_another_interleaving_with_the_same_losses(name: str) -> None:
    runs = [squall("run", f"examples/{name}.py", "--seed", seed, "--json") for seed in ("1", "2")]
    digests = {json.loads(ended.stdout)["digest"] for ended in runs}
    assert len(digests) == 2
    assert losses(runs[0].stderr) == losses(runs[1].stderr)


def with_groups(name: str, seed: str) -> tuple[list[str], str]:
    """Its losses, which it has compared with one process, and the digest of the run."""
    words = ("--workers", "4", "--engine", "torch", "--seed", seed, "--json")
    ended = squall("run", f"examples/{name}.py", *words, "--allow-unchecked")
    assert ended.returncode == 0, ended.stderr
    return losses(ended.stderr), json.loads(ended.stdout)["digest"]


@pytest.mark.deep("starts processes of PyTorch again and again")
@pytest.mark.usefixtures("compiled_engine")
@pytest.mark.parametrize("name", WITH_GROUPS)
def test_torchrun_and_squall_print_the_same_losses(name: str) -> None:
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4")
    real = stock(*torchrun, f"examples/{name}.py")
    assert real.returncode == 0, real.stderr
    runs = [with_groups(name, seed) for seed in ("0", "7")]
    assert [printed for printed, _ in runs] == [losses(real.stdout)] * 2
    assert len({digest for _, digest in runs}) == 2


@pytest.mark.usefixtures("compiled_engine")
@pytest.mark.parametrize("name", WITH_GROUPS)
def test_training_with_groups_is_that_of_one_process(name: str) -> None:
    printed, _ = with_groups(name, "1")
    values = [float(line.split()[-1]) for line in printed]
    assert len(values) == 5 and values == sorted(values, reverse=True)


def test_the_port_says_which_engine_has_what_it_lacks() -> None:
    ended = squall("run", "examples/ddp.py", "--workers", "4")
    assert ended.returncode == 1
    assert "DistributedDataParallel is not simulated on the engine port" in ended.stderr
    assert "Use --engine torch" in ended.stderr


def test_what_the_port_lacks_is_no_failure_that_a_search_finds() -> None:
    ended = squall("fuzz", "examples/ddp.py", "--workers", "4")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
    assert "DistributedDataParallel is not simulated on the engine port" in ended.stderr
