"""Tensors of one autograd context in a pass of another."""

from __future__ import annotations

from squall.sim.search.mutants.mutant import Mutant

RANK = 36
MUTANTS = (
    Mutant(
        name="pass-of-another-context-is-over",
        wrong="a pass that meets a tensor of another context takes itself for one that is over, and "
        "its gradients are lost",
        place="autograd.context:DistAutogradContext.propagate_gradients",
        old="if graph_task.context is not self:",
        new="if False:",
    ),
    Mutant(
        name="other-context-refused-in-its-passes-only",
        wrong="a tensor of another context is refused only while a pass of that context runs",
        place="autograd.context:DistAutogradContext.propagate_gradients",
        old="if graph_task.context is not self:",
        new="if graph_task.context is not self and self._graph_task is not None:",
    ),
    Mutant(
        name="other-context-refused-outside-its-passes",
        wrong="gradients of a tensor of another context go out in the pass of that context which runs",
        place="autograd.context:DistAutogradContext.propagate_gradients",
        old="if graph_task.context is not self:",
        new="if graph_task.context is not self and self._graph_task is not None:\n"
        "            graph_task = self._graph_task\n"
        "        if graph_task.context is not self:",
    ),
    Mutant(
        name="gone-context-is-silent",
        wrong="a tensor whose context is gone takes its gradients and says nothing",
        place="autograd.recv_function:RecvRpcBackward.apply",
        old="raise context_is_gone()",
        new="return",
    ),
    Mutant(
        name="released-context-is-silent",
        wrong="a tensor whose context was released takes its gradients and says nothing",
        place="autograd.context:DistAutogradContext.propagate_gradients",
        old="raise context_is_gone()",
        new="return",
    ),
    Mutant(
        name="reply-leaves-its-context",
        origin="blind",
        wrong="whoever completes the answer to a call has the context of that call from then on",
        place="rpc.request_callback:RequestCallback.process_forward_autograd_req",
        old="        except ReleasedError:  # meanwhile\n            return message\n"
        "        finally:\n            task.autograd_context_id = before\n",
        new="        except ReleasedError:  # meanwhile\n"
        "            task.autograd_context_id = before\n            return message\n",
    ),
)
