"""What a program has in it: how often each feature occurs.

``squall fuzz --stats`` adds these up over a campaign. A feature that a large campaign never
reaches is a defect of the generator.
"""

from __future__ import annotations

from squall.model.coverage.feature_rules import (
    Feature,
    any_op,
    any_use,
    at_once,
    broadcasts,
    call,
    calls_back,
    chains,
    depth,
    diamonds,
    dtype,
    early,
    fan_in,
    fan_out,
    fault,
    fetched,
    forked,
    grad,
    hook,
    keep,
    leaf_hook,
    left_out,
    mixed_message,
    passes,
    remote_table,
    reuse,
    self_calls,
    sent_in_several,
    sent_twice_in_one,
    several_outputs,
    shared_leaves,
    shared_subexpression,
    shown,
    sparse_and_dense,
    unfed,
    where,
)
from squall.model.program.acts.act import every
from squall.model.program.acts.kind import kinds as act_kinds
from squall.model.program.operations import KINDS
from squall.model.program.program import Program
from squall.model.program.stories import KINDS as STORIES

ACTS = tuple(act_kinds())


def features(program: Program) -> dict[str, int]:
    """How often each feature occurs in the program; 0 where it does not."""
    found = {name: int(count(program)) for name, count in FEATURES.items()}
    for kind in STORIES:
        found[_of_story(kind)] = 0
    for kind in ACTS:
        found[_of_act(kind)] = 0
    for _, _, step in program.steps:
        for story in step.stories:
            if story.kind in STORIES:
                found[_of_story(story.kind)] += 1
            for act in every(story.acts):
                found[_of_act(act.kind)] += 1
    return found


def feature_names() -> list[str]:
    """The names of all features."""
    return [*FEATURES, *map(_of_story, STORIES), *map(_of_act, ACTS)]


def _of_story(kind: str) -> str:
    return f"story: {kind}"


def _of_act(kind: str) -> str:
    return f"act: {kind}"


#: by name; besides these there is one for each kind of story, and of act
FEATURES: dict[str, Feature] = {
    "1 worker": lambda p: p.workers == 1,
    "2-4 workers": lambda p: 2 <= p.workers <= 4,
    "5-8 workers": lambda p: 5 <= p.workers <= 8,
    "1 trainer": lambda p: len(p.trainers) == 1,
    "2-4 trainers": lambda p: 2 <= len(p.trainers) <= 4,
    "several steps": lambda p: sum(len(t.steps) > 1 for t in p.trainers),
    "overlapping steps": lambda p: sum(t.overlap for t in p.trainers),
    "mode exact": lambda p: p.mode == "exact",
    "mode float": lambda p: p.mode == "float",
    # calls
    "rpc_sync": call("sync"),
    "rpc_async": call("async"),
    "remote": call("remote", "helper_remote"),
    "to_here": any_use(fetched),
    "async_execution": call("async_execution"),
    "RRef.rpc_sync": call("helper_sync"),
    "RRef.rpc_async": call("helper_async"),
    "RRef.remote": call("helper_remote"),
    "builtin operator": any_op(lambda op: op.builtin),
    "nested to depth 2": depth(2),
    "nested to depth 3": depth(3),
    "nested to depth 4": depth(4),
    "relay that computes": any_op(lambda op: bool(op.via) and op.relay != "pass"),
    "call to self": self_calls,
    "call back to the caller": calls_back,
    "tensor twice in one message": sent_twice_in_one,
    "tensor in several messages": sent_in_several,
    # references
    "RRef to user": forked(False, False),
    "RRef to its owner": forked(False, True),
    "RRef from its owner": forked(True, False),
    "RRef returned by its owner": any_op(lambda op: op.call == "rref"),
    "RRef returned by a user": any_op(lambda op: op.call == "remote" and bool(op.via)),
    "RRef passed before its value": any_use(early),
    "RRef kept past the step": keep("program"),
    "RRef kept by another worker": any_use(lambda p, use: use.input.how == "kept_rref"),
    "RRef dropped at once": keep("now"),
    "RRef dropped after its last use": keep("use"),
    "parameters on several owners": lambda p: (
        len({x.owner for x in p.leaves if x.requires_grad}) > 1
    ),
    "RRef.backward": where("rref"),
    # graphs
    "chain across workers": chains,
    "diamond across workers": diamonds,
    "fan-out across workers": fan_out,
    "fan-in across workers": fan_in,
    "reuse": reuse,
    "shared sub-expression across workers": shared_subexpression,
    "input without grad": any_use(
        lambda p, use: use.is_leaf and not p.leaves[use.number].requires_grad
    ),
    "message with and without grad": mixed_message,
    "some outputs unused": left_out,
    "unfed send function": unfed,
    "outputs with and without grad": shown("outputs with and without grad"),
    "detach": shown("detach"),
    "no_grad on the callee": grad("off"),
    "no_grad on the caller": grad("off_at_caller"),
    "several outputs": any_op(several_outputs),
    "view": shown("view"),
    "in-place": shown("in-place"),
    "broadcasting": broadcasts,
    "custom Function": shown("custom Function"),
    "custom Function with several outputs": shown("custom Function with several outputs"),
    "undefined gradient": shown("undefined gradient"),
    "input handed back": shown("input handed back"),
    "float32": dtype("float32"),
    "float64": dtype("float64"),
    "bfloat16": dtype("bfloat16"),
    "complex64": dtype("complex64"),
    "cast": shown("cast"),
    "sparse gradient": shown("sparse gradient"),
    "sparse gradient of another worker's table": any_use(remote_table),
    "sparse and dense gradient": sparse_and_dense,
    "zero-size tensor": lambda p: sum(0 in leaf.shape for leaf in p.leaves),
    "scalar": lambda p: sum(leaf.shape == () for leaf in p.leaves),
    "parameter of several trainers": shared_leaves,
    # backward
    "several roots": lambda p: sum(len(b.roots) > 1 for _, _, s in p.steps for b in s.backwards),
    "several backwards": passes,
    "retain_graph": lambda p: sum(b.retain_graph for _, _, s in p.steps for b in s.backwards),
    "backwards in several contexts at once": at_once,
    "backward in a function": where("udf"),
    "error in a function": fault("udf"),
    "error in Function.backward": fault("backward"),
    "error in a hook": fault("hook"),
    "retry": lambda p: sum(step.retry for _, _, step in p.steps),
    "tensor hook": hook("double", "increment", "look"),
    "hook that counts its calls": hook("increment"),
    "hooks of a node": hook("node_pre", "node_post"),
    "retain_grad": hook("retain_grad"),
    "tensor hook of a leaf": leaf_hook("double", "increment", "look"),
    "hooks of AccumulateGrad": leaf_hook("accumulate_pre", "accumulate_post"),
    "post-accumulate hook": leaf_hook("post_accumulate"),
    "step within a profile": lambda p: sum(step.profiled for _, _, step in p.steps),
    "optimizer step": lambda p: sum(step.optimize for _, _, step in p.steps),
    # beside the computation
    "all workers exchange objects": lambda p: p.gathers,
    "chain of references": lambda p: sum(len(step.chains) for _, _, step in p.steps),
    "updates at the same time": lambda p: sum(len(step.updates) for _, _, step in p.steps),
    "cargo": lambda p: sum(len(step.cargoes) for _, _, step in p.steps),
    "cargo with gradients": lambda p: sum(c.passes > 0 for _, _, s in p.steps for c in s.cargoes),
    "cargo whose call fails": lambda p: sum(
        c.fails is not None for _, _, s in p.steps for c in s.cargoes
    ),
    "several groups, one after the other": lambda p: len(p.endings),
}
for _kind in KINDS.values():
    for _feature in _kind.shows:
        FEATURES.setdefault(_feature, shown(_feature))
