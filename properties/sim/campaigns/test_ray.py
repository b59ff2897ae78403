"""Campaigns on Ray: the same table as anywhere, and an end in order whatever is killed."""

import os
import random
import signal
from pathlib import Path

import pytest

from squall.properties.sim.campaigns.test_driver import PLAN, command, leases_in, table
from squall.properties.support.descendants import command_of, descendants
from squall.properties.support.installed import needs_ray
from squall.properties.support.waiting import wait_for
from squall.sim.campaigns.driver import drive
from squall.sim.campaigns.parts import Part
from squall.sim.campaigns.place import Joined
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.ray_place import ray_place
from squall.sim.campaigns.store import CampaignStore

pytestmark = [
    needs_ray,
    # Ray takes ten seconds to start on a machine that has nothing else to do
    pytest.mark.timeout(1800),
]

HOSTED = "squall.sim.campaigns.hosted"
WIDE = Plan((Part("plain", range(12)), Part("rough", range(28), "rough")), size=2)


@pytest.fixture(scope="module")
def cluster():
    """Four machines, as far as Ray knows; one process judges on each."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    machine = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(True, head_node_args={**machine, "include_dashboard": False})
    for _ in range(3):
        cluster.add_node(**machine)
    yield cluster
    cluster.shutdown()


class Together:
    """A place of which nothing is heard until ``workers`` are there: on a busy machine the first
    would have judged everything before the second has started."""

    def __init__(self, place, workers):
        self._place, self._absent, self._held = place, workers, []
        self.start, self.stop, self.close = place.start, place.stop, place.close

    def poll(self, timeout_s):
        self._held += self._place.poll(timeout_s)
        if sum(type(event) is Joined for event in self._held) < self._absent:
            return []
        self._absent, told, self._held = 0, self._held, []
        return told


@pytest.mark.deep("Ray takes all cores for seconds")
def test_four_machines_with_processes_and_workers_killed_come_to_the_same(tmp_path, cluster):
    whole = table(tmp_path / "whole", WIDE, jobs=2)
    draw = random.Random(0)
    names, losses, killed = set(), [], []

    def kill(judged):
        """Now and then one of the processes that judge, of those beside actors, and of the actors."""
        names.add(judged.lease.key)
        if len(killed) == 6 or len(names) % 2:
            return
        station = "ray::Station" if len(killed) in (1, 3) else HOSTED
        ours = descendants(int(place._host.pid))
        found = [pid for pid, line in descendants().items() if station in line and pid not in ours]
        found = [pid for pid in found if pid != place._host.pid]
        if found:
            killed.append(draw.choice(found))
            os.kill(killed[-1], signal.SIGKILL)

    place = ray_place(cluster.address)
    store = CampaignStore(tmp_path / "ray", WIDE.said(), resume=False)
    looks = []
    all_four = Together(place, 4)
    drive(WIDE, store, all_four, on_lease=kill, on_look=looks.append, on_loss=losses.append)
    assert "".join(store.lines()) == whole
    store.close()
    assert killed and losses
    assert max(look.workers for look in looks) == 4
    # What is left of a worker that was killed sees that, and ends.
    wait_for(lambda: not any(HOSTED in line for line in descendants().values()), "the last end")


@pytest.mark.deep("Ray takes all cores for seconds")
def test_a_campaign_outlives_ray_and_its_driver(tmp_path):
    """Ray's head is killed; then, on another Ray, the driver; the pool does the rest."""
    words = ["--on", "ray", "--lease", "1", "--seeds", "0:40"]
    file = tmp_path / "campaign.sqlite"

    driver = command(tmp_path, *words)
    wait_for(lambda: leases_in(file) > 0, "a lease in the store")
    (head,) = (pid for pid, line in descendants(driver.pid).items() if "gcs_server" in line)
    os.kill(head, signal.SIGKILL)
    _, err = driver.communicate()
    assert driver.returncode == 2
    assert err.splitlines()[-1].startswith("squall: --on: ")
    assert err.splitlines()[-1].endswith("; what is judged is kept, --resume goes on")
    before = leases_in(file)

    driver = command(tmp_path, *words, "--resume")
    wait_for(lambda: leases_in(file) > before, "another lease in the store")
    started = descendants(driver.pid)
    driver.kill()
    driver.communicate()
    wait_for(lambda: not any(map(command_of, started)), "the end of what the driver had started")
    between = leases_in(file)
    assert before < between < 40

    out, err = command(tmp_path, *words[2:], "--resume").communicate()
    assert err == "", err
    assert f'"judged_now": {40 - between}' in out
    plan = Plan((Part("rough", range(40), "rough"),), size=1)
    assert table(file, plan, resume=True) == table(tmp_path / "whole", plan, jobs=2)


@pytest.mark.deep("Ray takes all cores for seconds")
def test_what_cannot_be_reached_is_told_in_a_line(tmp_path):
    driver = command(tmp_path, "--on", "ray", "--ray-address", "127.0.0.1:1")
    _, err = driver.communicate()
    assert driver.returncode == 2
    (line,) = err.splitlines()
    assert line.startswith("squall: --on: ")
    assert not Path(tmp_path / "kept").exists()


@pytest.mark.deep("imports Ray, which stays in the process")
@pytest.mark.parametrize(("failing", "tries"), [(0, 1), (1, 2), (9, 3)])
def test_a_machine_that_is_slow_to_serve_a_driver_is_asked_again(monkeypatch, failing, tries):
    """Ray's own client fails so where a machine has more to do than it can."""
    import ray

    from squall.sim.campaigns import ray_cluster

    asked = []

    def init(address, **options):
        asked.append(address)
        if len(asked) <= failing:
            raise ConnectionAbortedError(
                "Initialization failure from server:\nTraceback:\nRuntimeError: no server came"
            )

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray_cluster, "_SERVER_PAUSE_S", 0.0)
    if failing < tries:
        ray_cluster.join("ray://here:10001", {})
    else:
        with pytest.raises(ConnectionError) as caught:
            ray_cluster.join("ray://here:10001", {})
        told = ray_cluster.reason(caught.value)
        assert told == "Initialization failure from server: RuntimeError: no server came"
    assert asked == ["ray://here:10001"] * tries


@pytest.mark.deep("Ray takes all cores for seconds")
def test_a_ray_of_its_own_comes_to_the_same_and_ends(tmp_path):
    looks = []
    store = CampaignStore(tmp_path / "ray", PLAN.said(), resume=False)
    drive(PLAN, store, ray_place(jobs=2), on_look=looks.append)
    assert "".join(store.lines()) == table(tmp_path / "whole")
    assert {look.jobs for look in looks} == {0, 2}
    store.close()
    wait_for(lambda: not any(HOSTED in line for line in descendants().values()), "its end")
