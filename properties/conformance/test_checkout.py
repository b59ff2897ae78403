"""Tests of a checkout: files as those of PyTorch's test/distributed/, with each of its bases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from squall.properties.conformance.listing import IN_THREADS, NO_DEVICES
from squall.properties.support.commands import squall

PROCESSES = """
import os
import unittest

import torch
import torch.distributed as dist
from neighbour import three
from torch.testing._internal.common_distributed import (
    MultiProcContinuousTest, MultiProcessTestCase, MultiThreadedTestCase, skip_if_lt_x_gpu
)
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize


class Processes(MultiProcessTestCase):
    world_size = three

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"

    def setUp(self):
        super().setUp()
        os.environ["OF"] = self.id()
        self._spawn_processes()

    def begin(self):
        where = f"file://{self.file_name}"
        dist.init_process_group("gloo", where, rank=self.rank, world_size=self.world_size)

    def test_environment(self):
        self.assertEqual(os.environ["OF"], self.id())
        self.assertEqual(dist.get_debug_level(), dist.DebugLevel.DETAIL)

    def test_race(self):
        self.begin()
        total = torch.ones(2)
        work = dist.all_reduce(total, async_op=True)
        total.add_(1)
        work.wait()

    @parametrize("count", [1, 2])
    def test_sum(self, count):
        self.begin()
        total = torch.ones(count)
        dist.all_reduce(total)
        self.assertEqual(total, torch.full((count,), 3.0))

    def test_wrong(self):
        self.assertLess(self.rank, 2)

    @skip_if_lt_x_gpu(2)
    def test_gpus(self):
        raise AssertionError

    @unittest.skip("not today")
    def test_another_day(self):
        raise AssertionError


instantiate_parametrized_tests(Processes)


class GoesOn(MultiProcContinuousTest):
    world_size = 2

    @classmethod
    def backend_str(cls):
        return "gloo"

    def test_is_in_a_group(self):
        self.assertEqual(dist.get_rank(), self.rank)
        dist.barrier()


class OfDevices(MultiProcessTestCase):
    @property
    def world_size(self):
        return torch.accelerator.device_count()

    def test_them(self):
        raise AssertionError


class NotSetUp(MultiProcessTestCase):
    def setUp(self):
        super().setUp()
        raise RuntimeError("no such thing here")

    def test_nothing(self):
        raise AssertionError


class Threads(MultiThreadedTestCase):
    world_size = 2

    def test_nothing(self):
        raise AssertionError


class Plain(unittest.TestCase):
    def test_of_one_process(self):
        raise AssertionError
"""
TENSORS = """
import torch
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed._tensor.common_dtensor import (
    DTensorContinuousTestBase, DTensorTestBase, with_comms
)


class Tensors(DTensorTestBase):
    @with_comms
    def test_sum(self):
        tensor = distribute_tensor(torch.arange(8.0), self.build_device_mesh(), [Shard(0)])
        self.assertEqual(tensor.sum().full_tensor(), torch.tensor(28.0))


class TensorsGoOn(DTensorContinuousTestBase):
    world_size = 4
    test_sum = Tensors.test_sum
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "neighbour.py").write_text("three = 3\n", encoding="utf-8")
    (tmp_path / "part" / "test_processes.py").write_text(PROCESSES, encoding="utf-8")
    (tmp_path / "test_tensors.py").write_text(TENSORS, encoding="utf-8")
    (tmp_path / "test_unknown.py").write_text("import nothing_of_that_name\n", encoding="utf-8")
    return tmp_path


@pytest.mark.deep("imports PyTorch's helpers for tests in two processes, and again by rank")
@pytest.mark.usefixtures("compiled_engine")
def test_each_base_of_pytorch_starts_its_ranks(checkout: Path) -> None:
    done = squall("conformance", "--engine", "torch", "--tests", str(checkout), "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["tests"] == {
        "part/test_processes::GoesOn.test_is_in_a_group": "passed",
        "part/test_processes::NotSetUp.test_nothing": "not_applicable",
        "part/test_processes::OfDevices.test_them": "not_applicable",
        "part/test_processes::Processes.test_another_day": "not_applicable",
        "part/test_processes::Processes.test_environment": "passed",
        "part/test_processes::Processes.test_gpus": "not_applicable",
        "part/test_processes::Processes.test_race": "failed",
        "part/test_processes::Processes.test_sum_count_1": "passed",
        "part/test_processes::Processes.test_sum_count_2": "passed",
        "part/test_processes::Processes.test_wrong": "failed",
        "part/test_processes::Threads.test_nothing": "not_applicable",
        "test_tensors::Tensors.test_sum": "passed",
        "test_tensors::TensorsGoOn.test_sum": "passed",
        "test_unknown::(file).import": "not_applicable",
    }
    reasons = {name.partition("::")[2]: why for name, why in report["reasons"].items()}
    assert "process 2: AssertionError: 2 not less than 2" in reasons["Processes.test_wrong"]
    assert reasons["Processes.test_another_day"] == "not today"
    assert reasons["Processes.test_gpus"] == "Need at least 2 CUDA devices"
    assert "has written to its tensors before it was over" in reasons["Processes.test_race"]
    assert reasons["OfDevices.test_them"] == NO_DEVICES
    said = "it cannot be set up: RuntimeError: no such thing here"
    assert reasons["NotSetUp.test_nothing"] == said
    assert reasons["Threads.test_nothing"] == IN_THREADS
    assert "No module named 'nothing_of_that_name'" in reasons["(file).import"]


def test_what_cannot_be_collected_is_refused(checkout: Path) -> None:
    there, engine = ("--tests", str(checkout)), ("--engine", "torch")
    (checkout / "empty").mkdir()
    for words, said in (
        (there, "expected --engine torch"),
        ((*engine, "--tests", str(checkout / "elsewhere")), "there is no such folder or file"),
        ((*engine, "--tests", str(checkout / "empty")), "no file test_*.py is in it"),
        ((*engine, *there, "part/tests"), "expected one of part/test_processes, test_tensors"),
    ):
        done = squall("conformance", *words)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert said in " ".join(done.stderr.split()), done.stderr
