"""``campaign.toml``: the parts of a campaign, and the share of its time that each has.

Parts without an end (seeds, the cover) have shares of the time; others, whose work has an end (planted
bugs, programs of a size, tests), are done whole. What a scenario takes is not measured, since the plan must be
the same on each machine and each day: :data:`COSTS` say it.

Parts themselves play with torch: they are imported when all that a file says has been looked at.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from squall.model.program.strict_json import complaint
from squall.sim.campaigns.bugs import BY_DEFAULT, check_bug, every_bug
from squall.sim.campaigns.plan import MOST, Plan
from squall.sim.explore.enumeration import BoundsError, read_bounds
from squall.sim.names import ENGINE_NAMES, PROFILES, EngineName, Profile
from squall.sim.world.controlled_time import Grain

if TYPE_CHECKING:
    from squall.sim.campaigns.parts import Part

#: what a scenario of a part takes, where one without faults takes 1 (docs/campaigns.md)
COSTS = {"port": 1.0, "torch": 4.0, "groups": 20.0, "guided": 1.5, "diff": 5.0}
#: how far shares may be from adding up to 1, which decimal fractions may not do exactly
_ROUNDING = 1e-9
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


class CampaignFileError(Exception):
    """The file is no campaign: which field, and what would be right."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


def _engine(name: str) -> str:
    if name not in ENGINE_NAMES:
        raise ValueError(f"should be one of {', '.join(ENGINE_NAMES)}")
    return name


class _Shared(_Strict):
    """A part of which there is as much as anybody wants: of the ``kind`` in :data:`.parts.KINDS`."""

    share: Annotated[float, Field(gt=0, le=1)]
    kind: ClassVar[str] = "diff"

    @property
    def cost(self) -> float:
        return COSTS.get(self.kind, COSTS["port"])

    def part(self, name: str, seeds: range) -> Part:
        from squall.sim.campaigns.parts import KINDS

        said = self.model_dump(exclude={"share"})
        if "faults" in said:
            said["profile"] = said.pop("faults")
        return KINDS[self.kind](name, seeds, **said)


class _Versions(_Shared):
    faults: Profile | None = None
    kind = "versions"


class _Trainings(_Versions):
    kind = "groups"


class _Guided(_Versions):
    kind = "guided"

    def part(self, name: str, seeds: range) -> Part:
        from squall.sim.campaigns.parts.guided import Guided, stamp_of_cover

        return Guided(name, seeds, self.faults, cover=stamp_of_cover(self.faults))


class _Seeds(_Versions):
    engine: Annotated[EngineName, AfterValidator(_engine)] = "port"
    kind = "seeds"

    @property
    def cost(self) -> float:
        return COSTS.get(self.engine, COSTS["port"])


class _Whole(_Strict):
    """A part whose work has an end, and is done whole. Paths begin at the ``folder`` of the file."""

    def check(self) -> None:
        """Raises CampaignFileError for what types alone do not tell."""

    def part(self, name: str, folder: Path) -> Part:
        raise NotImplementedError


class _Canaries(_Whole):
    bugs: Annotated[tuple[str, ...], Field(strict=False)] | Literal["all"] | None = None
    seeds: Annotated[int, Field(ge=1, le=10_000_000)] = 500

    @property
    def _named(self) -> tuple[str, ...]:
        if self.bugs == "all":
            return every_bug()
        return BY_DEFAULT if self.bugs is None else tuple(dict.fromkeys(self.bugs))

    def check(self) -> None:
        if not self._named:
            raise CampaignFileError("bugs: is empty, expected names of planted bugs")
        for bug in self._named:
            try:
                check_bug(bug)
            except ValueError as error:
                raise CampaignFileError(f"bugs: {error}") from None

    def part(self, name: str, folder: Path) -> Part:
        from squall.sim.campaigns.parts import Canaries

        bugs = self._named
        return Canaries(name, range(len(bugs)), bugs=bugs, each=self.seeds)


class _Explored(_Whole):
    programs: str
    executions: Annotated[int, Field(ge=1, le=1_000_000_000)] = 20_000
    grain: Grain = "message"
    one_fault: bool = False

    def check(self) -> None:
        try:
            read_bounds(self.programs)
        except BoundsError as error:
            raise CampaignFileError(f"programs: {error}") from None

    def part(self, name: str, folder: Path) -> Part:
        from squall.sim.campaigns.parts import Exploration
        from squall.sim.campaigns.parts.exploration import programs

        return Exploration(
            name,
            range(len(programs(self.programs))),
            programs=self.programs,
            executions=self.executions,
            grain=self.grain,
            one_fault=self.one_fault,
        )


Words = Annotated[tuple[str, ...], Field(strict=False)]


class _Stories(_Whole):
    engine: Annotated[EngineName, AfterValidator(_engine)] = "port"

    def part(self, name: str, folder: Path) -> Part:
        from squall.sim.campaigns.parts import Stories
        from squall.sim.campaigns.parts.stories import scenarios

        return Stories(name, range(len(scenarios(self.engine))), engine=self.engine)


class _Saved(_Whole):
    files: Words
    varies: Words = ()

    def part(self, name: str, folder: Path) -> Part:
        from squall.sim.campaigns.parts.saved import saved_in

        try:
            return saved_in(name, folder, self.files, self.varies)
        except (ValueError, OSError) as error:
            raise CampaignFileError(f"files: {_one_line(error)}") from None


class _Tests(_Whole):
    paths: Annotated[Words, Field(min_length=1)]
    options: Words = ()
    again: Words | None = None

    def part(self, name: str, folder: Path) -> Part:
        from squall.sim.campaigns.parts.tests import SuiteError, suite_of

        try:
            return suite_of(name, folder, self.paths, self.options, self.again)
        except SuiteError as error:
            raise CampaignFileError(f"paths: {error}") from None


#: what a part is by its name, and what is said of it already
_KINDS: dict[str, tuple[type[_Shared] | type[_Whole], dict[str, Any]]] = {
    "plain": (_Seeds, {}),
    **{profile: (_Seeds, {"faults": profile}) for profile in PROFILES},
    "guided": (_Guided, {}),
    "torch": (_Seeds, {"engine": "torch"}),
    "groups": (_Trainings, {}),
    "diff": (_Shared, {}),
    "versions": (_Versions, {}),
    "canaries": (_Canaries, {}),
    "explore": (_Explored, {}),
    "stories": (_Stories, {}),
    "saved": (_Saved, {}),
    "tests": (_Tests, {}),
}


class _File(_Strict):
    #: of all parts that have a share
    scenarios: Annotated[int, Field(ge=1, le=MOST)] | None = None
    first_seed: Annotated[int, Field(ge=0, le=MOST)] = 0
    #: interpreters of parts of the kind "versions"
    python: Annotated[tuple[str, ...], Field(strict=False)] = ()
    parts: dict[str, Any]


def load_plan(file: Path) -> Plan:
    """The plan that a file describes. Raises CampaignFileError."""
    try:
        said = _File.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
        return Plan(_on_others(_parts(said, file.parent), said.python, file.parent))
    except CampaignFileError as error:
        raise CampaignFileError(f"{file}: {error}") from None
    except OSError as error:
        raise CampaignFileError(f"{file}: {error.strerror}") from None
    except ValidationError as error:
        raise CampaignFileError(f"{file}: {_problem(error)}") from None
    except (ValueError, RecursionError) as error:
        raise CampaignFileError(f"{file}: {_one_line(error)}") from None


def _problem(error: ValidationError) -> str:
    return complaint(error, "part").removeprefix(".")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _parts(said: _File, folder: Path) -> tuple[Part, ...]:
    """All parts with their numbers, in the order of the file, which is in that folder."""
    read = {name: _read(name, value) for name, value in said.parts.items()}
    counts = _counts(said, {n: each for n, each in read.items() if isinstance(each, _Shared)})
    seeds = {name: range(said.first_seed, said.first_seed + n) for name, n in counts.items()}
    for name, each in read.items():
        with _of_part(name):
            if isinstance(each, _Whole):
                each.check()
            elif seeds[name].stop > MOST:
                raise CampaignFileError(f"its seeds end at {seeds[name].stop}, expected {MOST}")
    _check_python(said, read.values())
    found = []
    for name, each in read.items():
        with _of_part(name):
            if isinstance(each, _Whole):
                found.append(each.part(name, folder))
            else:
                found.append(each.part(name, seeds[name]))
    return tuple(found)


@contextmanager
def _of_part(name: str) -> Iterator[None]:
    """What is wrong within is said of this part."""
    try:
        yield
    except CampaignFileError as error:
        raise CampaignFileError(f"parts.{name}: {error}") from None


def _check_python(said: _File, read: Iterable[_Shared | _Whole]) -> None:
    """Raises CampaignFileError for interpreters without a part for them, or a part without any."""
    wanted = any(type(each) is _Versions for each in read)
    if said.python and not wanted:
        raise CampaignFileError("python: is for a part versions, and there is none")
    if wanted and not said.python:
        raise CampaignFileError("python: is missing, expected interpreters for the part versions")


def _on_others(parts: tuple[Part, ...], python: tuple[str, ...], folder: Path) -> tuple[Part, ...]:
    """The parts, those for other versions with the interpreters, whose paths begin at the file."""
    if not python:
        return parts
    from squall.sim.campaigns.parts import Versions
    from squall.sim.campaigns.parts.versions import OtherPythonError, ask
    from squall.sim.search.verify_fix import code_stamp

    others = []
    for number, text in enumerate(python):
        try:
            other = ask((folder / Path(text).expanduser()).absolute())
        except OtherPythonError as error:
            raise CampaignFileError(f"python[{number}]: {error}") from None
        if other.code != (here := code_stamp("")):
            problem = f"{text!r} has a squall with the code {other.code}, expected {here}"
            raise CampaignFileError(f"python[{number}]: {problem}")
        others.append(other)
    paths, versions = tuple(each.path for each in others), tuple(each.torch for each in others)
    return tuple(
        replace(part, python=paths, torch=versions) if isinstance(part, Versions) else part
        for part in parts
    )


def _read(name: str, value: Any) -> _Shared | _Whole:
    """What the file says of a part."""
    fields = dict(value) if isinstance(value, dict) else {"share": value}
    kind = fields.pop("kind", name)
    if not isinstance(kind, str) or kind not in _KINDS:
        known = ", ".join(_KINDS)
        if kind == name:
            raise CampaignFileError(f"parts: there is no part {name!r}, expected some of {known}")
        raise CampaignFileError(f"parts.{name}: kind: {kind!r}, expected one of {known}")
    if not _NAME.fullmatch(name):
        raise CampaignFileError(
            f"parts: the name {name!r} is none, expected up to 40 letters, digits, dots and dashes"
        )
    model, known_fields = _KINDS[kind]
    if issubclass(model, _Whole) and not isinstance(value, dict):
        raise CampaignFileError(
            f"parts.{name}: is done whole and has no share, expected a table [parts.{name}]"
        )
    try:
        return model.model_validate(known_fields | fields)
    except ValidationError as error:
        raise CampaignFileError(f"parts.{name}{complaint(error, 'part')}") from None


def _counts(said: _File, shared: dict[str, _Shared]) -> dict[str, int]:
    """How many scenarios each part has, so that its share of the time is what the file says."""
    if not shared and said.parts:
        return {}
    if said.scenarios is None:
        raise CampaignFileError("scenarios: is missing, expected how many those with a share have")
    total = math.fsum(each.share for each in shared.values())
    if abs(total - 1) > _ROUNDING:
        raise CampaignFileError(f"parts: the shares add up to {total:g}, expected 1")
    weights = {name: each.share / each.cost for name, each in shared.items()}
    whole = math.fsum(weights.values())
    counts = {}
    weight, before = 0.0, 0
    for name, each in shared.items():
        weight += weights[name]
        after = round(weight / whole * said.scenarios)
        if after == before:
            raise CampaignFileError(
                f"parts.{name}: {each.share:g} of the time of {said.scenarios} scenarios is none"
            )
        counts[name] = after - before
        before = after
    return counts
