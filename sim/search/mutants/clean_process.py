"""A process that knows nothing of a planted bug, and says whether a scenario fails without it too.

What a bug leaves behind in a process, in a table of a module say, outlives its removal: there,
nothing that is asked later can be trusted.
"""

from __future__ import annotations

import json
import os


class CleanProcess:
    """Forked before the bug is planted; ends with the process that has it."""

    def __init__(self) -> None:
        asked, self._ask = os.pipe()
        self._answers, answer = os.pipe()
        if os.fork() == 0:
            os.close(self._ask)
            os.close(self._answers)
            try:
                _serve(asked, answer)
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answer)

    def holds(self, profile: str, seed: int) -> bool:
        """Whether everything holds in a scenario without the bug. Not if the clean_process dies of it."""
        os.write(self._ask, json.dumps([profile, seed]).encode() + b"\n")
        return os.read(self._answers, 1) == b"y"


def _serve(asked: int, answer: int) -> None:
    from squall.sim.scenarios.settings import campaign_settings
    from squall.sim.search.draw import settings_of
    from squall.sim.search.judge import judge

    with os.fdopen(asked) as questions, campaign_settings():
        for question in questions:
            profile, seed = json.loads(question)
            os.write(answer, b"y" if judge(seed, settings_of(profile)).ok else b"n")
