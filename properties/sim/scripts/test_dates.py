"""Dates and clocks of a script are those of the simulation, the same on either engine."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from squall.properties.sim.scripts.test_processes import run
from squall.sim.names import EngineName
from squall.sim.scripts.dates import simulated


@pytest.mark.sampled(1)
def test_dates_are_virtual_and_pickle_as_before(tmp_path: Path, engine: EngineName) -> None:
    source = """
        import datetime as dt, pickle, time
        from datetime import date, datetime, timezone

        class Mine(datetime):
            pass

        began = datetime.now(timezone.utc)
        time.sleep(36 * 3600)
        now = datetime.now(timezone.utc)
        print(began.date(), now.date(), round((now - began).total_seconds()) == 36 * 3600)
        print(date.today() - began.date(), dt.datetime.today().year, dt.datetime.utcnow().tzinfo)
        print(type(Mine.now()).__name__, type(now) is datetime, pickle.loads(pickle.dumps(now)) == now)
        print(time.strftime("%Y", time.gmtime()), time.localtime().tm_year, time.time_ns() // 10**18)
        print(time.monotonic_ns() // 10**12, int(time.perf_counter()) // 10**5, time.ctime()[-4:])
    """
    found, said = run(tmp_path, engine, source)
    assert found.errors == []
    assert said.splitlines() == [
        "2024-01-01 2024-01-02 True",
        "1 day, 0:00:00 2024 None",
        "Mine True True",
        "2024 2024 1",
        "130 1 2024",
    ]


def test_outside_of_a_process_of_a_script_nothing_has_changed() -> None:
    class Mine(datetime.datetime):
        pass

    with simulated(lambda: None):
        seen = Mine.now(), datetime.datetime.today(), Mine.today(), datetime.date.today()
        assert [type(each) for each in seen] == [Mine, datetime.datetime, Mine, datetime.date]
        assert abs(datetime.datetime.now() - seen[1]) < datetime.timedelta(minutes=5)
    with simulated(lambda: 0.0):
        assert datetime.datetime.now(datetime.UTC).year == 1970
    assert datetime.datetime.now(datetime.UTC).year > 2000
