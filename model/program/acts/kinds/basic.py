"""Acts that use no RPC by themselves."""

from __future__ import annotations

from squall.model.program.acts.act import Act
from squall.model.program.acts.executor import At
from squall.model.program.acts.kind import Drawing, kinds_of

kind = kinds_of(__name__)


def _draw_wait(drawing: Drawing) -> Act:
    return Act(kind="wait", seconds=drawing.seconds())


@kind("wait", draw=_draw_wait, takes={"seconds"})
def wait(act: Act, at: At) -> None:
    """The task sleeps."""
    at.sleep(act.seconds)


def _draw_fail(drawing: Drawing) -> Act:
    return Act(kind="fail")


@kind("fail", draw=_draw_fail)
def fail(act: Act, at: At) -> None:
    """The function, callback or hook raises an error of its own."""
    at.fail()


def _draw_told(drawing: Drawing) -> Act:
    return Act(kind="told", acts=drawing.acts("tried"))


@kind("told", draw=_draw_told, takes={"acts"})
def told(act: Act, at: At) -> None:
    """Whether acts went well, in a line: an error ends here."""
    try:
        at.do(act.acts)
    except Exception as error:
        at.tell(at.said(error))
    else:
        at.tell(f"well on {at.worker}")
