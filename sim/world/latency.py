"""How long a message is under way: models of latency, and the words that name them.

A duration in a spec is in seconds, or carries its unit: ``0.001``, ``1ms``, ``50us``, ``2s``.
"""

from __future__ import annotations

import math
import random
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

#: what a spec may look like, with an example of each form
FORMS = (
    "0",
    "constant:0.001",
    "uniform:0.001:0.005",
    "lognormal:0.001:0.5 (median, sigma)",
    "empirical:FILE (one duration a line)",
)

#: what a run takes unless it is told otherwise: a millisecond, now and then three
DEFAULT_LATENCY = "lognormal:0.001:0.5"

#: beyond it a log-normal model gives now and then the age of the universe
MAX_SIGMA = 10.0

_DURATION = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?inf|nan)(us|ms|s)?", re.I)
_PER_SECOND = {"": 1, "s": 1, "ms": 1_000, "us": 1_000_000}


class LatencyModel(ABC):
    """A distribution of durations. ``str(model)`` is a spec that parses to an equal model."""

    #: False: every sample is the same, and none draws from the stream
    is_random: ClassVar[bool] = True

    @abstractmethod
    def sample(self, rng: random.Random) -> float:
        """The latency of one message, in seconds; never negative."""


@dataclass(frozen=True)
class ConstantLatency(LatencyModel):
    """Every message takes ``delay_s`` seconds."""

    is_random: ClassVar[bool] = False
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        _check_duration("a constant latency", self.delay_s)

    def sample(self, rng: random.Random) -> float:
        return self.delay_s

    def __str__(self) -> str:
        return f"constant:{self.delay_s!r}" if self.delay_s else "0"


@dataclass(frozen=True)
class UniformLatency(LatencyModel):
    """Any duration between ``min_s`` and ``max_s`` seconds, all equally likely."""

    min_s: float
    max_s: float

    def __post_init__(self) -> None:
        _check_duration("the minimum of a uniform latency", self.min_s)
        _check_duration("the maximum of a uniform latency", self.max_s)
        if self.min_s > self.max_s:
            raise ValueError(
                f"the minimum of a uniform latency, {self.min_s}, is above its maximum, "
                f"{self.max_s}"
            )

    def sample(self, rng: random.Random) -> float:
        return self.min_s + (self.max_s - self.min_s) * rng.random()

    def __str__(self) -> str:
        return f"uniform:{self.min_s!r}:{self.max_s!r}"


@dataclass(frozen=True)
class LogNormalLatency(LatencyModel):
    """Half of all messages take less than ``median_s`` seconds, a few take much longer.

    ``sigma`` is the standard deviation of the logarithm: at 0.5 one message in 40 takes 2.7
    times the median or more, at 1.0 seven times.
    """

    median_s: float
    sigma: float

    def __post_init__(self) -> None:
        _check_duration("the median of a log-normal latency", self.median_s)
        if not 0 <= self.sigma <= MAX_SIGMA:
            raise ValueError(
                f"the sigma of a log-normal latency is {self.sigma}, expected 0 to {MAX_SIGMA:g}"
            )

    def sample(self, rng: random.Random) -> float:
        return self.median_s * math.exp(rng.normalvariate(0.0, self.sigma))

    def __str__(self) -> str:
        return f"lognormal:{self.median_s!r}:{self.sigma!r}"


@dataclass(frozen=True)
class EmpiricalLatency(LatencyModel):
    """One of the durations that were measured, all equally likely.

    ``path`` names where ``samples_s`` (seconds) came from; see :meth:`read`.
    """

    path: str
    samples_s: tuple[float, ...] = field(repr=False)

    def __post_init__(self) -> None:
        if not self.samples_s:
            raise ValueError(f"{self.path} holds no durations, expected one a line")
        for sample in self.samples_s:
            _check_duration(f"a latency in {self.path}", sample)

    @classmethod
    def read(cls, path: str) -> EmpiricalLatency:
        """Read a text file of one duration a line; blank lines and ``#`` comments are skipped.

        Raises ValueError naming the file, and the line if one of them is no duration.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
            raise ValueError(f"cannot read the latency file {path}: {why}") from None
        samples: list[float] = []
        for number, line in enumerate(text.splitlines(), 1):
            line = line.partition("#")[0].strip()
            if line:
                try:
                    samples.append(parse_duration_s(line))
                except ValueError as error:
                    raise ValueError(f"{path}, line {number}: {error}") from None
        return cls(path, tuple(samples))

    def sample(self, rng: random.Random) -> float:
        return self.samples_s[int(rng.random() * len(self.samples_s))]

    def __str__(self) -> str:
        return f"empirical:{self.path}"


def parse_duration_s(text: str) -> float:
    """Seconds meant by ``0.001``, ``1ms`` or ``50us``.

    Raises ValueError if it is no duration, or a negative or infinite one.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no duration, expected seconds such as 0.001, or 1ms, 50us")
    number, unit = match.groups(default="")
    # Divided, since 5 / 1000 is the double nearest to 0.005, which 5 * 1e-3 need not be.
    seconds = float(number) / _PER_SECOND[unit.lower()]
    _check_duration(repr(text), seconds)
    return seconds


def parse_latency(spec: str) -> LatencyModel:
    """The model that ``spec`` names.

    The forms: ``0``, ``constant:0.001``, ``uniform:0.001:0.005`` (least, most),
    ``lognormal:0.001:0.5`` (median, sigma), ``empirical:FILE``. A duration alone is a constant.
    Raises ValueError with a message of one line that names the spec and lists the forms.
    """
    try:
        return _parse(spec.strip())
    except ValueError as error:
        raise ValueError(
            f"bad latency {spec!r}: {error}; expected one of {', '.join(FORMS)}; "
            "durations in seconds, or as 1ms, 50us"
        ) from None


def _parse(spec: str) -> LatencyModel:
    kind, _, rest = spec.partition(":")
    if kind.lower() != "empirical":
        return _formula(spec)
    if not rest:
        raise ValueError("empirical needs the name of a file")
    return EmpiricalLatency.read(rest)


# Campaigns name the same few models again and again.
@lru_cache(maxsize=64)
def _formula(spec: str) -> LatencyModel:
    kind, colon, rest = spec.partition(":")
    kind = kind.lower()
    if not colon and _DURATION.fullmatch(spec):
        return ConstantLatency(parse_duration_s(spec))
    if kind == "constant":
        (delay,) = _arguments(kind, rest, "DELAY")
        return ConstantLatency(parse_duration_s(delay))
    if kind == "uniform":
        least, most = _arguments(kind, rest, "MIN", "MAX")
        return UniformLatency(parse_duration_s(least), parse_duration_s(most))
    if kind == "lognormal":
        median, sigma = _arguments(kind, rest, "MEDIAN", "SIGMA")
        return LogNormalLatency(parse_duration_s(median), _sigma(sigma))
    raise ValueError(f"no model is called {kind!r}" if kind else "it is empty")


def _arguments(kind: str, rest: str, *names: str) -> list[str]:
    found = rest.split(":") if rest else []
    if len(found) != len(names):
        raise ValueError(f"{kind} takes {kind}:{':'.join(names)}")
    return found


def _sigma(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"sigma {text!r} is no number") from None


def _check_duration(what: str, seconds: float) -> None:
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{what} is {seconds}, expected a finite number of seconds, 0 or more")
