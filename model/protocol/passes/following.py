"""The contexts of a run, as states of the model: what steps are taken on, and what is not followed."""

from __future__ import annotations

from squall.model.protocol.passes.not_allowed import NotAllowedError
from squall.model.protocol.passes.number_set import Numbers
from squall.model.protocol.passes.state import Context, ContextStage
from squall.model.protocol.passes.table import RULES, Rules


class Followed:
    """Contexts by their ids, with the pairs of each by message."""

    def __init__(self, rules: Rules = RULES) -> None:
        self._apply = {name: rule.apply for name, rule in rules.items()}
        self.contexts: dict[int, Context] = {}
        #: by context and message: the number of the pair
        self._pairs: dict[int, dict[int, int]] = {}
        #: contexts that are not followed any more, and workers that are not there
        self.lost: set[int] = set()
        self.gone: set[int] = set()
        #: some process ends in the run, of which others may hear before there is an event: whoever does
        #: tells everybody of the releases that it may not have passed on
        self.ends = False

    def end_of(self, worker: int) -> None:
        """The process of a worker has ended, or has left its group."""
        self.gone.add(worker)
        for id, context in self.contexts.items():
            if worker in context.stages or any(pair.to == worker for pair in context.pairs):
                self.lost.add(id)

    # -- taking steps -------------------------------------------------------------------------

    def _try(self, name: str, context: Context, *arguments: int | Numbers) -> bool:
        return self._apply[name](context, *arguments)

    def _step(self, name: str, context: Context, *arguments: int | Numbers) -> None:
        """Raises NotAllowedError if the model does not allow it."""
        if not self._try(name, context, *arguments):
            about = [list(each) if isinstance(each, Numbers) else each for each in arguments]
            raise NotAllowedError(f"a state in which {name} {about} is a step", shown(context))

    def _context(self, id: int) -> Context:
        context = self.contexts.get(id)
        if context is None:
            raise NotAllowedError(f"context {id} made before", "no such context")
        return context

    def _pair(self, id: int, message: int) -> int:
        number = self._pairs[id].get(message)
        if number is None:
            raise NotAllowedError(f"message {message} sent before", "no such message")
        return number

    def _pair_in_graph(self, id: int, message: int) -> int | None:
        """The pair of a function in a graph of a context. One that a tensor of another context
        brought there has none: no gradients of this context leave by it, and a pass that meets it
        fails."""
        number = self._pairs[id].get(message)
        if number is None and not self._is_of_another(id, message):
            return self._pair(id, message)
        return number

    def _is_of_another(self, id: int, message: int) -> bool:
        # One that is lost may have sent it since.
        return any(
            message in pairs or other in self.lost
            for other, pairs in self._pairs.items()
            if other != id
        )

    # -- the end ---------------------------------------------------------------------------

    def tables(self, worker: int) -> tuple[int, int]:
        """What the worker's tables hold, as TABLES_COUNTED has it: contexts, and passes."""
        contexts = passes = 0
        for context in self.contexts.values():
            contexts += context.stage(worker) is ContextStage.LIVE
            passes += context.running(worker) is not None
        return contexts, passes


def shown(context: Context) -> str:
    """A context in words."""
    stages = ", ".join(f"{stage.name} on {worker}" for worker, stage in context.stages.items())
    parts = [
        f"pass {number} {part.progress.name} on {worker}, fed {list(part.fed)} of "
        f"{list(part.counted)}"
        for number, each in enumerate(context.passes)
        for worker, part in each.parts.items()
    ]
    return "; ".join([f"the context {stages}", *parts])
