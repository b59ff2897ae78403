"""Passes that are over while user code in them still runs."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 25
_NOT_OVER = (
    "        if self._graph_task is not graph_task or graph_task.has_error:\n            return\n"
    "        pass_id, retain_graph = graph_task.pass_id, graph_task.keep_graph\n"
)
MUTANTS = (
    Mutant(
        name="sent-in-the-name-of-the-running-pass",
        wrong="a node that outlasts its pass sends its gradients as those of the pass that runs",
        place="autograd.context:DistAutogradContext.propagate_gradients",
        old=_NOT_OVER,
        new="        pass_id = self.pass_id or graph_task.pass_id\n"
        "        retain_graph = graph_task.keep_graph\n",
    ),
    Mutant(
        name="sent-after-the-end",
        wrong="a node that outlasts its pass sends its gradients, though nobody wants them",
        place="autograd.context:DistAutogradContext.propagate_gradients",
        old=_NOT_OVER,
        new="        pass_id, retain_graph = graph_task.pass_id, graph_task.keep_graph\n",
    ),
    Mutant(
        name="accumulated-after-the-end",
        wrong="a gradient is accumulated although its pass is over",
        place="autograd.context:DistAutogradContext.accumulate_grad",
        old="if not self._goes_on(graph_task):",
        new="if False:",
    ),
    Mutant(
        name="accumulated-in-the-running-pass",
        wrong="what outlasts its pass is accumulated as if it belonged to the pass that runs",
        place="autograd.context:DistAutogradContext.accumulate_grad",
        old="if not self._goes_on(graph_task):\n            return False",
        new="if self._graph_task is None:\n            return False\n"
        "        graph_task = self._graph_task",
    ),
    Mutant(
        name="accumulated-by-a-failed-pass",
        wrong="a gradient is accumulated unless another pass has begun, though its own has failed",
        place="autograd.context:DistAutogradContext._goes_on",
        old="self._graph_task is graph_task and not graph_task.has_error",
        new="(self._graph_task is graph_task or self._graph_task is None)",
    ),
    Mutant(
        name="accumulated-after-another-began",
        wrong="a gradient is accumulated unless its pass has failed, though another one has begun",
        place="autograd.context:DistAutogradContext._goes_on",
        old="self._graph_task is graph_task and not graph_task.has_error",
        new="self._graph_task is not None",
    ),
    Mutant(
        name="node-goes-on-after-the-end",
        wrong="what a node found is handed on although its pass ended while it ran",
        place="autograd.engine:Engine.evaluate_function",
        old="    if graph_task.has_error:\n        return\n",
        new="",
    ),
    Mutant(
        name="leaf-goes-on-after-the-end",
        wrong="a leaf counts as reached although its pass ended in its hook",
        place="autograd.engine:Engine.evaluate_function",
        old="if info.captures and not graph_task.has_error:",
        new="if info.captures:",
    ),
    Mutant(
        name="late-gradients-join-the-running-pass",
        wrong="gradients of a pass that is over are taken for those of the one that runs",
        place="autograd.dist_engine:DistEngine._join_pass",
        old="first = running != pass_id",
        new="first = running is None",
    ),
    Mutant(
        name="overtaken-pass-goes-on",
        wrong="a pass that another one has overtaken on a worker is not told of its end",
        place="autograd.dist_engine:DistEngine._join_pass",
        old="        overtaken.set_exception(RuntimeError(_OVERTAKEN))\n",
        new="        pass\n",
    ),
    Mutant(
        name="part-ends-in-the-running-pass",
        wrong="a part that ends waits for what the pass that runs has sent, not for its own",
        place="autograd.context:DistAutogradContext.clear_and_wait_for_outstanding_rpcs_async",
        old="    with self._lock:\n",
        new="    graph_task = self._graph_task or graph_task\n    with self._lock:\n",
        unseen="a part that a later pass overtakes has failed by then, and waits for nothing",
    ),
)
