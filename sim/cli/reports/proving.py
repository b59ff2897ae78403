"""``squall fuzz --until-proven``: scenarios until a fix is believed, with a bar that says how far."""

from __future__ import annotations

import time

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.reports.campaign import Asked
from squall.sim.cli.reports.confidence import PriorFailure, percent
from squall.sim.cli.reports.playing import Display
from squall.sim.scenarios.failure import Failure
from squall.sim.search.campaign import Campaign, run_campaign
from squall.sim.search.covers import CoverError, own_file
from squall.sim.search.detection_probability import Sample
from squall.sim.search.draw import Settings
from squall.sim.search.failure_rates import kept
from squall.sim.search.judge import Verdict
from squall.sim.search.schedules import Rescheduled
from squall.sim.search.verify_fix import Proof, UnknownError, proof_of

#: real seconds between two writings of what was played
_KEEP_S = 5.0


def find_proof(source: int | Rescheduled, asked: Asked, found: Sample | None) -> Proof:
    """What is to be proven, from what is known. Raises BadInput."""
    settings = asked.settings
    try:
        return proof_of(source, settings, found)
    except UnknownError:
        problem = (
            f"no campaign in this folder has kept how often the failure of seed {source} was found "
            f"(under these faults, on this engine, with today's generator{_elsewhere(source)}); "
            "expected --found K:N with it: found in K of N seeds"
        )
        raise BadInput("--until-proven", str(source), problem) from None
    except CoverError as error:
        raise BadInput("cover", str(own_file(settings.profile or "")), str(error)) from None


def _elsewhere(source: int | Rescheduled) -> str:
    """Under which other faults a seed's failure was found, in words; empty if under none."""
    seed = source if isinstance(source, int) else source.seed
    profiles = {
        "no faults" if campaign.profile is None else f"--faults {campaign.profile}"
        for campaign in kept()
        if any(failure.seed == seed for failure in campaign.failures)
    }
    return f"; it was found with {' and '.join(sorted(profiles))}" if profiles else ""


def prove(
    proof: Proof, asked: Asked, settings: Settings
) -> tuple[Campaign, list[PriorFailure] | None]:
    """Play what the proof asks for, with progress and failures on standard error.

    What was played is kept, now and then and at the end, so that it can go on there. Returns what
    it says as well, unless something has failed.
    """

    def done(campaign: Campaign) -> tuple[float, str]:
        confidence = proof.confidence
        said = f"{percent(confidence.chance)} sure, {campaign.scenarios_per_second:,.1f}/s"
        return confidence.progress, said

    with Display(asked, 1.0, done, counts=False) as display:
        if proof.resume():
            display.warn(f"goes on where it was: {percent(proof.confidence.chance)} sure")
        keeping = _Keeping(proof, display)

        def show(verdict: Verdict, failure: Failure | None, campaign: Campaign) -> None:
            proof.add(verdict)
            display.show(failure, campaign)
            keeping.keep(campaign, now=False)

        campaign = run_campaign(
            range(0),
            settings,
            first=proof.sources(),
            enough=proof.ended,
            jobs=asked.jobs,
            on_verdict=show,
        )
        keeping.keep(campaign, now=True)
    told = [PriorFailure(str(proof.source), proof.confidence, proof.kept)] if campaign.ok else None
    return campaign, told


class _Keeping:
    """Writes down what was played; where that is not possible, it says so once."""

    def __init__(self, proof: Proof, display: Display) -> None:
        self._proof = proof
        self._display = display
        self._kept_at = time.monotonic()
        self._broken = False

    def keep(self, campaign: Campaign, *, now: bool) -> None:
        """Unless ``now``, only if it was a while ago."""
        if self._broken or (not now and time.monotonic() - self._kept_at < _KEEP_S):
            return
        self._kept_at = time.monotonic()
        try:
            if campaign.ok:
                self._proof.keep()
            else:
                self._proof.forget()
        except OSError as error:
            self._broken = True
            self._display.warn(f"what was played is not kept: {error.strerror or error}")
