"""A training as a script that compares itself with one process, on stock PyTorch as under squall.

text = script_text(training)
scenario = around.scenario(script_of(training, "training-712"), seed=712)
"""

from __future__ import annotations

from squall.sim.scenario import Script
from squall.sim.trainings.talks import IMPORTS, lines_of
from squall.sim.trainings.training import PIPELINES, SHARDED, Call, Layer, Talk, Training, header

_HEAD = '''\
"""A training of {ranks} ranks that was drawn: each gradient, and what each step makes of the weights, is
compared with one process that has the batches of all ranks.

    torchrun --nproc-per-node {ranks} FILE
    squall run FILE --workers {ranks} --engine torch
"""

{header}
import contextlib
import copy
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist
from torch import nn, optim
{imports}
RANKS, STEPS, ROUNDS, SEED = {ranks}, {steps}, {rounds}, {seed}
#: in so many parts each batch is trained on at the same time
SHARES = {shares}
'''
_BUFFER = '''

class Centered(nn.Module):
    """Has a buffer that each batch changes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean.mul_(0.5).add_(x.detach().mean(0))
        return x - self.mean
'''
_MODEL = """

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([
{made}
        ])

    def forward(self, x, step):
{forward}
        return x


def make_model(seed=0):
    torch.manual_seed(SEED + seed)
    model = Model().double()
{float32}    return model


def make_optimizer(model):
    trained = [each for each in model.parameters() if each.requires_grad]
    return {optimizer}


def batch(step, round, share):
    generator = torch.Generator().manual_seed(((SEED * 5 + step) * 5 + round) * 10 + share)
    inputs = torch.randn({rows}, 4, generator=generator, dtype=torch.float64)
    return inputs, inputs.sin()
"""
_LOSS = '''

def loss_of(model, step, round, share):
    inputs, targets = batch(step, round, share)
    return nn.functional.mse_loss(model(inputs, step), targets) / ROUNDS


def one_process(model, step):
    """The gradients of all batches."""
    for round in range(ROUNDS):
        before = {name: it.clone() for name, it in model.named_buffers()}
        for share in reversed(range(SHARES)):  # the last is that of rank 0, whose buffers all have then
            model.load_state_dict(before, strict=False)
            (loss_of(model, step, round, share) / SHARES).backward()
'''
#: the same with parameters of another type in each pass
_LOW_LOSS = '''

def loss_of(model, step, round, share):
    inputs, targets = batch(step, round, share)
    return nn.functional.mse_loss(model(inputs.float(), step), targets)


def one_process(model, step):
    """The gradients of all batches, each computed in float32."""
    for share in range(SHARES):
        low = copy.deepcopy(model).float()
        low.zero_grad()
        loss_of(low, step, 0, share).backward()
        for each, one in zip(model.parameters(), low.parameters(), strict=True):
            if one.grad is not None:
                gradient = one.grad.double() / SHARES
                each.grad = gradient if each.grad is None else each.grad + gradient
'''
_CHECK = """

def compare(single, model, what{whole}):
    for (name, one), other in zip(single.named_parameters(), model.parameters(), strict=True):
        if what == "gradient":
            one, other = one.grad, other.grad
            assert (one is None) == (other is None), f"{{what}} of {{name}}: {{one}} and {{other}}"
            if one is None:
                continue
        one, other = one.detach(), other.detach()
{parts}        if one.shape == other.shape and torch.allclose(other, one, rtol=0, atol={atol}):
            continue
        told = f"{{what}} of {{name}} is not that of one process"
        torch.testing.assert_close(
            other, one, rtol=0, atol={atol}, msg=lambda text: f"{{told}}: {{text}}"
        )


def expect(found, expected):
    if not torch.equal(found, expected):
        at = int((found != expected).flatten().nonzero()[0])
        told = [each.flatten()[at : at + 3].tolist() for each in (found, expected)]
        raise AssertionError(f"{{told[0]}} at element {{at}}, expected {{told[1]}}")
"""
_PARTS_OF_TENSORS = '''

def part(tensor, sharded):
    """What this rank has of it."""
    for dim, placement in reversed([*enumerate(sharded.placements)]):
        if hasattr(placement, "dim"):  # Shard, and _StridedShard, which is none
            mesh, length = sharded.device_mesh, tensor.shape[placement.dim]
            size = -(-length // mesh.size(dim))
            begin = min(mesh.get_local_rank(dim) * size, length)
            tensor = tensor.narrow(placement.dim, begin, min(size, length - begin))
    return tensor
'''
_COMPARE_OWN = """

def compare_own(single, model, step, share):
    \"\"\"Nothing is reduced yet: the gradients are those of this rank's batch.\"\"\"
    own = copy.deepcopy(single)
    own.zero_grad()
    loss_of(own, step, 0, share).backward()
    compare(own, model, "gradient")
"""
_TRAIN = """

def train(rank, groups):
    single = make_model()
    mirror, share = single, {share}
{wrap}
    optimizers = [make_optimizer(single), {optimizer}]
{saving}    for step in range(STEPS):
{begin}        for each in optimizers:
            each.zero_grad()
        one_process(single, step)
{backward}
        compare(mirror, model, "gradient")
        for each in optimizers:
            each.step()
        compare(mirror, model, "weight")
{end}{save}{last}{load}

def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
{join}    groups = [{groups}]
    train(dist.get_rank(), groups)
{leave}    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
_MADE: dict[Layer, str] = {
    # Ranks have shards of it that are not equal.
    "wide": "nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4))",
    "norm": "nn.LayerNorm(4)",
    "buffer": "Centered()",
    "frozen": "nn.Sequential(nn.Linear(4, 4), nn.Tanh()).requires_grad_(False)",
}
_MESSAGES: frozenset[Call] = frozenset({"ring", "batched ring", "any source", "tags"})
_LINEAR = "nn.Sequential(nn.Linear(4, 4), nn.Tanh())"
#: AdamW divides by what gradients are: with a small eps rounding errors would grow
_OPTIMIZERS = {
    "SGD": ("optim.SGD", "lr=0.1, momentum=0.5"),
    "AdamW": ("optim.AdamW", "lr=0.05, eps=1e-3"),
}


def script_of(training: Training, name: str) -> Script:
    """The script, which is in no file, and which compares its gradients itself."""
    return Script(path=name, text=script_text(training), workers=training.ranks, check=False)


def script_text(training: Training) -> str:
    """The text of the script."""
    wrap, backward, imports = _PARTS[training.wrapper](training)
    made = [layer for layer in training.layers if layer != "again"]
    forward = [
        _forward(training.layers[0], 0)
        if layer == "again"
        else _forward(layer, at - training.layers[:at].count("again"))
        for at, layer in enumerate(training.layers)
    ]
    kind, options = _OPTIMIZERS[training.optimizer]
    sharded = training.wrapper in SHARDED
    remote = any(talk.call == "remote gradients" for talk in training.talks)
    imports += [line for talk in training.talks for line in IMPORTS.get(talk.call, ())]
    if _how_saved(training):
        imports.append("import torch.distributed.checkpoint as dcp")
    begin, end = _talks(training)
    optimizer = "make_optimizer(model)"
    if training.wrapper == "zero":
        bucket = ", parameters_as_bucket_view=True" if "views" in training.options else ""
        optimizer = (
            "ZeroRedundancyOptimizer([each for each in model.parameters() if each.requires_grad], "
            f"{kind}{bucket}, {options})"
        )
    parts = [
        _HEAD.format(
            header=header(training),
            ranks=training.ranks,
            steps=training.steps,
            rounds=training.rounds,
            seed=training.seed,
            shares=training.shares,
            imports="".join(f"{line}\n" for line in sorted({*imports}, key=_order)),
        ),
        _BUFFER if "buffer" in training.layers else "",
        _MODEL.format(
            made="\n".join(f"            {_MADE.get(layer, _LINEAR)}," for layer in made),
            forward="\n".join(f"        {line}" for line in forward if line),
            optimizer=f"{kind}(trained, {options})",
            float32="".join(
                f"    model.layers[{at}].float()\n"
                for at, each in enumerate(made)
                if each == "float32"
            ),
            rows=2 * training.chunks if training.wrapper in PIPELINES else 3,
        ),
        _LOW_LOSS if "mixed precision" in training.options else _LOSS,
        _PARTS_OF_TENSORS if sharded else "",
        _CHECK.format(
            atol="1e-4" if "float32" in training.layers else "1e-12",
            whole=", whole=False" if sharded else "",
            parts="        one, other = (one, other.full_tensor()) if whole else "
            "(part(one, other), other.to_local())\n"
            if sharded
            else "",
        ),
        _COMPARE_OWN if "compare_own(" in backward else "",
        *(f"\n\n{lines_of(talk, number)}" for number, talk in enumerate(training.talks)),
        _TRAIN.format(
            wrap=_indented(wrap, 4),
            share={1: "0", training.ranks: "rank"}.get(training.shares, "rank // 2"),
            optimizer=optimizer,
            begin=begin,
            backward=_indented(backward, 8),
            end=end,
            **_saved(training),
            join='    rpc.init_rpc(f"rank{dist.get_rank()}", rank=dist.get_rank(), world_size=RANKS)\n'
            if remote
            else "",
            leave="    rpc.shutdown()\n" if remote else "",
            last='    compare(mirror, model, "weight", whole=True)\n' if sharded else "",
            groups=", ".join(f"dist.new_group({list(among)})" for among, _ in _groups(training)),
        ),
    ]
    text = "".join(parts)
    for name, line in _IMPORTED.items():
        text = text if f"{name}." in text or f"{name}(" in text else text.replace(line, "")
    return text


#: what is imported if its name is used
_IMPORTED = {
    "contextlib": "import contextlib\n",
    "shutil": "import shutil\n",
    "tempfile": "import tempfile\n",
    "ThreadPoolExecutor": "from concurrent.futures import ThreadPoolExecutor\n",
}


def _order(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line


def _how_saved(training: Training) -> str:
    return next((each for each in training.options if each.startswith("checkpoint")), "")


def _saved(training: Training) -> dict[str, str]:
    """What makes ready for saving the model, saves it after the first step, and loads it again in the end."""
    how = _how_saved(training)
    if not how:
        return {"saving": "", "save": "", "load": ""}
    saving = (
        "folders = [tempfile.mkdtemp() if rank == 0 else None]\n"
        "dist.broadcast_object_list(folders)\n"
        "savers = dist.new_group()  # a group for whoever saves beside the training\n"
    )
    beside = how == "checkpoint beside"
    save = (
        "if step == 0:\n"
        "    saved = copy.deepcopy(single)\n"
        f"    {'saver = dcp.async_save' if beside else 'dcp.save'}"
        '({"model": model.state_dict()}, checkpoint_id=folders[0], process_group=savers)\n'
    )
    load = (
        f"{'saver.result()' if beside else ''}\n"
        'loaded = {"model": model.state_dict()}\n'
        "dcp.load(loaded, checkpoint_id=folders[0], process_group=savers)\n"
        'model.load_state_dict(loaded["model"])\n'
        'compare(saved, model, "loaded weight")\n'
        "dist.barrier()\n"
        "if rank == 0:\n"
        "    shutil.rmtree(folders[0])\n"
    ).lstrip("\n")
    return {
        "saving": _indented(saving, 4) + "\n",
        "save": _indented(save, 8) + "\n",
        "load": _indented(load, 4) + "\n",
    }


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line if line else "" for line in text.splitlines())


def _forward(layer: Layer, at: int) -> str:
    """Its line; ``at``: its index among those that are made."""
    return {
        "float32": f"x = self.layers[{at}](x.float()).double()",
        "unused": "",
        "sometimes": f"x = self.layers[{at}](x) if step % 2 == 0 else x",
    }.get(layer, f"x = self.layers[{at}](x)")


def _talks(training: Training) -> tuple[str, str]:
    """What is begun before a step, and what comes after it."""
    begin, end, groups = "", "", _groups(training)
    for number, talk in enumerate(training.talks):
        here = f"        if step == {talk.after} and rank in {list(talk.among)}:\n            "
        name, made = (
            f"talk_{number}",
            f"talk{number}(rank, groups[{groups.index(_group(talk, number))}])",
        )
        if talk.on_thread:
            begin += f"{here}pool = ThreadPoolExecutor(1)\n"
            begin += f"            {name} = pool.submit(list, {made})\n            pool.shutdown(wait=False)\n"
            end += f"{here}{name}.result()\n"
            continue
        started = f"{here}{name} = {made}\n            next({name})\n"
        ended = f"            next({name}, None)\n"
        if talk.at_work:
            begin += started
            end += here.removesuffix(" " * 12) + ended
        else:
            end += started + ended
    return begin, end


def _groups(training: Training) -> list[tuple[tuple[int, ...], int]]:
    """Those that are made for what ranks tell each other."""
    return list(dict.fromkeys(_group(talk, at) for at, talk in enumerate(training.talks)))


def _group(talk: Talk, number: int) -> tuple[tuple[int, ...], int]:
    """One for all collectives of the same ranks; threads have each its own, as in one group the order of calls has to be the
    same on all ranks, and so have messages, which others would take."""
    return talk.among, number if talk.on_thread or talk.call in _MESSAGES else -1


# -- how it is distributed: what wraps the model, a step's backward passes, and imports ------------

_Parts = tuple[str, str, list[str]]


def _by_hand(training: Training) -> _Parts:
    backward = "for round in range(ROUNDS):\n    loss_of(model, step, round, share).backward()\n"
    if "flat" in training.options:
        backward += (
            "gradients = [each.grad for each in model.parameters() if each.grad is not None]\n"
            "flat = torch.cat([each.flatten() for each in gradients])\n"
            "dist.all_reduce(flat)\n"
            "parts = flat.div(RANKS).split([each.numel() for each in gradients])\n"
            "for gradient, part in zip(gradients, parts, strict=True):\n"
            "    gradient.copy_(part.view_as(gradient))\n"
        )
    else:
        later = "async" in training.options
        backward += (
            "works = []\n"
            "for each in model.parameters():\n"
            "    if each.grad is not None:\n"
            f"        works.append(dist.all_reduce(each.grad, async_op={later}))\n"
        )
        backward += "for work in works:\n    work.wait()\n" if later else ""
        backward += "for each in model.parameters():\n    if each.grad is not None:\n        each.grad.div_(RANKS)\n"
    return "model = copy.deepcopy(single)", backward, []


def _ddp(training: Training) -> _Parts:
    options = []
    if "small buckets" in training.options:
        options.append("bucket_cap_mb=0.0001")
    if "views" in training.options and training.wrapper == "ddp":
        options.append("gradient_as_bucket_view=True")
    if "static" in training.options:
        options.append("static_graph=True")
    elif {"unused", "sometimes"} & {*training.layers} or "find unused" in training.options:
        options.append("find_unused_parameters=True")
    wrap = f"model = DistributedDataParallel({', '.join(['copy.deepcopy(single)', *options])})"
    if "other weights" in training.options:  # each rank gets those of rank 0
        wrap = wrap.replace("copy.deepcopy(single)", "make_model(rank)")
    imports = ["from torch.nn.parallel import DistributedDataParallel"]
    if "hook" in training.options:
        wrap += "\nmodel.register_comm_hook(None, default_hooks.allreduce_hook)"
        imports.insert(0, "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks")
    if training.wrapper == "zero":
        imports.insert(0, "from torch.distributed.optim import ZeroRedundancyOptimizer")
    backward = "for round in range(ROUNDS):\n"
    if training.rounds > 1 and "each round" not in training.options:
        backward += (
            "    with contextlib.nullcontext() if round == ROUNDS - 1 else model.no_sync():\n"
            "        loss_of(model, step, round, share).backward()\n"
            "    if round == 0:\n"
            "        compare_own(single, model, step, share)\n"
        )
    else:
        backward += "    loss_of(model, step, round, share).backward()\n"
    return wrap, backward, imports


def _fsdp(training: Training) -> _Parts:
    shape = "(RANKS // 2, 2)" if training.wrapper == "hsdp" else "(RANKS,)"
    names = ', mesh_dim_names=("replicate", "shard")' if training.wrapper == "hsdp" else ""
    keep = ", reshard_after_forward=False" if "keep" in training.options else ""
    low = "mixed precision" in training.options
    keep += ", mp_policy=policy" if low else ""
    wrap = f'mesh = init_device_mesh("cpu", {shape}{names})\nmodel = copy.deepcopy(single)\n'
    if low:
        wrap += (
            "policy = MixedPrecisionPolicy(param_dtype=torch.float32, reduce_dtype=torch.float64)\n"
        )
    if "whole" not in training.options:
        wrap += f"for layer in model.layers:\n    fully_shard(layer, mesh=mesh{keep})\n"
    wrap += f"fully_shard(model, mesh=mesh{keep})"
    backward = "for round in range(ROUNDS):\n"
    if training.rounds > 1 and "each round" not in training.options:
        backward += "    model.set_requires_gradient_sync(round == ROUNDS - 1)\n"
    backward += "    loss_of(model, step, round, share).backward()\n"
    if training.rounds > 1 and "each round" not in training.options:
        backward += (
            "    reduced = [name for name, each in model.named_parameters() if each.grad is not None]\n"
            '    assert not reduced or round == ROUNDS - 1, f"the gradients of {reduced} are reduced too early"\n'
        )
    imports = [
        "from torch.distributed.device_mesh import init_device_mesh",
        f"from torch.distributed.fsdp import {'MixedPrecisionPolicy, ' if low else ''}fully_shard",
    ]
    return wrap, backward, imports


def _pipeline(training: Training) -> _Parts:
    multi, both = training.stages_a_rank > 1, training.wrapper == "pp x dp"
    group = ', group=mesh["pp"].get_group()' if both else ""
    place = "place = rank\n"
    inner = ""
    if "inner" in training.options:
        inner = (
            "    for part in layer.children():\n"
            "        if list(part.parameters()):\n"
            '            fully_shard(part, mesh=mesh["dp"])\n'
        )
    if both:
        place = (
            'mesh = init_device_mesh("cpu", (RANKS // 2, 2), mesh_dim_names=("dp", "pp"))\n'
            "place = rank % 2\n"
            "for layer in model.layers:\n"
            f"{inner}"
            '    fully_shard(layer, mesh=mesh["dp"])\n'
        )
    kind = f"Schedule{training.schedule}"
    wrap = (
        "model = copy.deepcopy(single)\n"
        f"{place}mine = range(place, {training.stages}, {training.stages // training.stages_a_rank})\n"
        "stages = [\n"
        f'    PipelineStage(model.layers[at], at, {training.stages}, torch.device("cpu"){group}) for at in mine\n'
        "]\n"
        f"schedule = {kind}({'stages' if multi else 'stages[0]'}, {training.chunks}, "
        "loss_fn=nn.functional.mse_loss)\n"
        "mirror, model = (nn.ModuleList([one.layers[at] for at in mine]) for one in (single, model))"
    )
    backward = (
        "inputs, targets = batch(step, 0, share)\n"
        "given = (inputs,) if place == 0 else ()\n"
        f'target = {{"target": targets}} if {training.stages - 1} in mine else {{}}\n'
        "schedule.step(*given, **target)\n"
    )
    imports = [f"from torch.distributed.pipelining import PipelineStage, {kind}"]
    if both:
        imports.insert(0, "from torch.distributed.device_mesh import init_device_mesh")
        imports.insert(1, "from torch.distributed.fsdp import fully_shard")
    return wrap, backward, imports


def _tensors(training: Training) -> _Parts:
    """Each linear layer's columns, or rows, are on several ranks."""
    both = training.wrapper == "dp x tp"
    shape = '(RANKS // 2, 2), mesh_dim_names=("dp", "tp")' if both else "(RANKS,)"
    count = len(training.layers)
    ways = [
        "RowwiseParallel()"
        if at % 2
        else "ColwiseParallel()"
        if at < count - 1
        else "ColwiseParallel(output_layouts=Replicate())"
        for at in range(count)
    ]
    part = 'mesh["tp"]' if both else "mesh"
    plan = "".join(f'    "layers.{at}.0": {way},\n' for at, way in enumerate(ways))
    wrap = (
        f'mesh = init_device_mesh("cpu", {shape})\nplan = {{\n{plan}}}\n'
        f"model = parallelize_module(copy.deepcopy(single), {part}, plan)\n"
    )
    imports = [
        "from torch.distributed.device_mesh import init_device_mesh",
        "from torch.distributed.tensor import Replicate",
        "from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module",
    ]
    if both:
        wrap += 'fully_shard(model, mesh=mesh["dp"])\n'
        imports.insert(1, "from torch.distributed.fsdp import fully_shard")
    backward = "for round in range(ROUNDS):\n    loss_of(model, step, round, share).backward()\n"
    return wrap, backward, imports


_PARTS = {
    "tp": _tensors,
    "dp x tp": _tensors,
    "pp x dp": _pipeline,
    "by hand": _by_hand,
    "ddp": _ddp,
    "zero": _ddp,
    "fsdp": _fsdp,
    "hsdp": _fsdp,
    "pipeline": _pipeline,
}
