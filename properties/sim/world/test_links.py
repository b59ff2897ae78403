"""What links cost, and ports that carry one message after the other."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from squall.sim.world.links import Cost, LinkCosts, Ports, parse_links


class Sized:
    """A message of so many bytes."""

    def __init__(self, src: int, dst: int, size_bytes: int) -> None:
        self.src, self.dst, self.size_bytes = src, dst, size_bytes


def delay_s(ports: Ports, src: int, dst: int, size_bytes: int, now_s: float = 0.0) -> float:
    message: Any = Sized(src, dst, size_bytes)
    return ports.delay_s(message, now_s)


def test_costs_of_all_links_and_of_pairs_are_read() -> None:
    costs = parse_links("3-2:latency=1ms; latency=5us, bandwidth=25e9; 0-1:bandwidth=1e9")
    assert costs.general == Cost(5e-6, 25e9)
    assert costs.of(2, 3) == costs.of(3, 2) == Cost(1e-3, 25e9)
    assert costs.of(1, 0) == Cost(5e-6, 1e9)
    assert parse_links("latency=0").of(0, 7) == Cost(0.0, math.inf)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fast", "'fast' is wrong, expected latency=DURATION,bandwidth=BYTES_PER_SECOND"),
        ("latency=soon", "'soon' is no duration, expected seconds such as 0.001, or 1ms, 50us"),
        ("bandwidth=0", "bandwidth '0' should be a number of bytes a second above 0"),
        ("bandwidth=25GB", "bandwidth '25GB' should be a number of bytes a second above 0"),
        ("latency=1ms,latency=2ms", "latency is given twice, expected once"),
        ("2-2:latency=1ms", "'2-2' is no pair of ranks, expected two different ones, such as 2-3"),
        ("a:latency=1ms", "'a' is no pair of ranks"),
        ("0-1:latency=1ms;1-0:latency=2ms", "1-0 is given twice, expected once"),
        ("latency=1ms;bandwidth=1e9", "every link is given twice, expected once"),
    ],
)
def test_what_is_no_cost_is_told(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        parse_links(text)


def test_a_port_sends_and_takes_one_message_after_the_other() -> None:
    ports = Ports(LinkCosts(Cost(0.5, 10.0)))
    assert delay_s(ports, 0, 1, 10) == 1.5
    assert delay_s(ports, 0, 2, 10) == 2.5  # behind the first on its way out
    assert delay_s(ports, 3, 1, 10) == 2.5  # behind the first on its way in
    assert delay_s(ports, 1, 0, 10) == 1.5  # both ways at the same time
    assert delay_s(ports, 0, 1, 10, now_s=10.0) == 1.5
    assert delay_s(ports, 0, 1, 0) == 0.5  # nothing keeps what has no bytes


def test_what_is_there_first_comes_in_first() -> None:
    ports = Ports(LinkCosts(Cost(0.0, 10.0)))
    assert [delay_s(ports, 0, dst, 10) for dst in (2, 1)] == [1.0, 2.0]
    # Asked for later, it is at 1 before that of 0, which is still on its way out.
    assert delay_s(ports, 3, 1, 10) == 1.0


def test_a_slow_link_keeps_only_its_own_messages() -> None:
    ports = Ports(LinkCosts(Cost(0.0, 10.0), {(0, 1): Cost(0.0, 1.0)}))
    assert delay_s(ports, 0, 1, 10) == 10.0
    assert delay_s(ports, 0, 2, 10) == 2.0
    assert delay_s(ports, 0, 1, 10) == 20.0
