"""A campaign on two machines between which the network is cut."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from squall.properties.sim.campaigns.test_driver import table
from squall.properties.support.installed import needs_ray
from squall.properties.support.two_machines import missing, two_machines
from squall.sim.campaigns.driver import Look, drive
from squall.sim.campaigns.lease import Judged
from squall.sim.campaigns.parts import Part
from squall.sim.campaigns.place import PlaceError
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.ray_place import ray_place
from squall.sim.campaigns.store import CampaignStore

PLAN = Plan((Part("rough", range(160), "rough"),), size=4)
#: real seconds after which the driver takes a worker for gone
SILENCE_S = 6.0


@pytest.mark.deep("Ray takes all cores for seconds")
@needs_ray
@pytest.mark.timeout(1800)
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_network_that_is_cut_costs_leases_and_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each machine has judged something as the cable is pulled. It is plugged in again when the
    driver has missed the second one, so that what that has to say comes late."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    whole = table(tmp_path / "whole", PLAN, jobs=2)
    workers: list[str] = []
    losses: list[str] = []
    cut_s: list[float] = []

    def judged_one(judged: Judged) -> None:
        workers.append(judged.worker)
        if not cut_s and len({worker.partition("/")[0] for worker in workers}) == 2:
            machines.pull()
            cut_s.append(time.monotonic())

    def looked(look: object) -> None:
        if len(cut_s) == 1 and losses:
            machines.plug()
            cut_s.append(time.monotonic())

    with two_machines(tmp_path) as machines:
        store = CampaignStore(tmp_path / "ray", PLAN.said(), resume=False)
        drive(
            PLAN,
            store,
            ray_place(machines.address),
            silence_s=SILENCE_S,
            on_lease=judged_one,
            on_look=looked,
            on_loss=losses.append,
        )
        assert "".join(store.lines()) == whole
        store.close()
    cut, healed = cut_s
    assert healed - cut > 2.0, "neither Ray nor the driver can know sooner"
    (lost,) = losses
    assert lost.startswith(f"worker {machines.second}/")
    assert "of its leases go out again" in lost


@pytest.mark.deep("Ray takes all cores for seconds")
@needs_ray
@pytest.mark.timeout(1800)
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_driver_outside_of_the_cluster_comes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    whole = table(tmp_path / "whole", PLAN, jobs=2)
    looks: list[Look] = []
    with two_machines(tmp_path) as machines:
        store = CampaignStore(tmp_path / "ray", PLAN.said(), resume=False)
        drive(PLAN, store, ray_place(machines.client), on_look=looks.append)
        assert "".join(store.lines()) == whole
        store.close()
        other = CampaignStore(tmp_path / "other", PLAN.said(), resume=False)
        with pytest.raises(PlaceError, match=r"^Ray: none at ray://.*, expected the port of ray s"):
            drive(PLAN, other, ray_place(f"ray://{machines.address}"))
        other.close()
    assert max(look.workers for look in looks) == 2
