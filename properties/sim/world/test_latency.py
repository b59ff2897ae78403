"""Latency models and the specs that name them."""

from __future__ import annotations

import random
import statistics
from pathlib import Path

import pytest

from squall.sim.world.latency import (
    ConstantLatency,
    EmpiricalLatency,
    LogNormalLatency,
    UniformLatency,
    parse_latency,
)


@pytest.mark.parametrize(
    ("spec", "model"),
    [
        ("0", ConstantLatency(0.0)),
        ("1ms", ConstantLatency(0.001)),
        ("constant:0.001", ConstantLatency(0.001)),
        ("constant:50us", ConstantLatency(5e-5)),
        (" uniform:0.001:5ms ", UniformLatency(0.001, 0.005)),
        ("lognormal:0.001:0.5", LogNormalLatency(0.001, 0.5)),
    ],
)
def test_a_spec_names_a_model_and_the_model_names_its_spec(
    spec: str, model: ConstantLatency
) -> None:
    assert parse_latency(spec) == model
    assert parse_latency(str(model)) == model


def test_canonical_specs_come_back_as_they_were() -> None:
    for spec in ("0", "constant:0.001", "uniform:0.001:0.005", "lognormal:0.001:0.5"):
        assert str(parse_latency(spec)) == spec


def test_a_measured_latency_is_one_of_those_measured(tmp_path: Path) -> None:
    file = tmp_path / "ping.txt"
    file.write_text("# to the next rack\n1ms\n\n0.002  # a hiccup\n50us\n", encoding="utf-8")
    model = parse_latency(f"empirical:{file}")
    assert isinstance(model, EmpiricalLatency)
    rng = random.Random(0)
    assert {model.sample(rng) for _ in range(100)} == {0.001, 0.002, 5e-5}
    assert str(model) == f"empirical:{file}"


def test_half_of_the_log_normal_messages_are_faster_than_the_median() -> None:
    rng = random.Random(1)
    samples = [LogNormalLatency(0.003, 1.0).sample(rng) for _ in range(4001)]
    # The median of 4001 draws strays by sigma * 1.25 / sqrt(4001), 2 %: 10 % is five of these.
    assert statistics.median(samples) == pytest.approx(0.003, rel=0.1)
    assert min(samples) > 0


def test_uniform_keeps_to_its_bounds() -> None:
    rng = random.Random(2)
    samples = [UniformLatency(0.001, 0.002).sample(rng) for _ in range(1000)]
    assert 0.001 <= min(samples) < 0.0011
    assert 0.0019 < max(samples) <= 0.002


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("", "it is empty"),
        ("gauss:1", "no model is called 'gauss'"),
        ("fast", "no model is called 'fast'"),
        ("-1", "'-1' is -1.0"),
        ("constant:nan", "'nan' is nan"),
        ("constant:inf", "'inf' is inf"),
        ("constant:1h", "'1h' is no duration"),
        ("constant", "constant takes constant:DELAY"),
        ("constant:1:2", "constant takes constant:DELAY"),
        ("uniform:0.005:0.001", "0.005, is above its maximum, 0.001"),
        ("uniform:0.005", "uniform takes uniform:MIN:MAX"),
        ("lognormal:0.001", "lognormal takes lognormal:MEDIAN:SIGMA"),
        ("lognormal:0.001:-1", "is -1.0, expected 0 to 10"),
        ("lognormal:0.001:nan", "is nan, expected 0 to 10"),
        ("lognormal:0.001:wide", "sigma 'wide' is no number"),
        ("empirical:", "needs the name of a file"),
        ("empirical:/nowhere/x", "cannot read the latency file /nowhere/x: No such file"),
    ],
)
def test_a_bad_spec_is_answered_with_what_would_be_right(spec: str, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_latency(spec)
    text = str(caught.value)
    assert f"bad latency {spec!r}" in text
    assert complaint in text
    assert "lognormal:0.001:0.5" in text
    assert "\n" not in text


def test_a_bad_line_of_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "ping.txt"
    file.write_text("1ms\nsoon\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"ping.txt, line 2: 'soon' is no duration"):
        parse_latency(f"empirical:{file}")
    file.write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(ValueError, match="holds no durations"):
        parse_latency(f"empirical:{file}")
