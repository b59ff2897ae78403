"""Every class of torch.optim by DistributedOptimizer, with its options, for real, complex and sparse gradients: the numbers
are those of the optimizer in one process."""

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from promise import alike, outcome, promise, start
from torch import optim
from torch.distributed.optim import DistributedOptimizer

STEPS = 3
#: by class: its options, one set after the other
OPTIONS = {
    optim.SGD: [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.5},
        {"lr": 0.1, "maximize": True},
        {"lr": 0.1, "foreach": True},
        {"lr": 0.1, "fused": True},
        {"lr": 0.1, "differentiable": False},
        {"lr": 0.0},
        {"lr": torch.tensor(0.1)},
        {},
    ],
    optim.Adam: [
        {"lr": 0.1},
        {"lr": 0.1, "amsgrad": True, "betas": (0.8, 0.99)},
        {"lr": 0.1, "weight_decay": 0.1, "eps": 1e-4},
        {"lr": 0.1, "maximize": True},
        {"lr": 0.1, "foreach": True},
        {"lr": 0.1, "fused": True},
        {"lr": torch.tensor(0.1)},
        {},
        {"lr": 0.1, "decoupled_weight_decay": True, "weight_decay": 0.1},
    ],
    optim.AdamW: [
        {"lr": 0.1},
        {"lr": 0.1, "amsgrad": True},
        {"lr": 0.1, "weight_decay": 0.5},
        {"lr": 0.1, "maximize": True},
        {"lr": 0.1, "foreach": True},
        {},
    ],
    optim.Adagrad: [
        {"lr": 0.1},
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3},
        {"lr": 0.1, "maximize": True},
        {"lr": 0.1, "foreach": True},
        {},
    ],
    optim.Adadelta: [
        {"lr": 0.1},
        {"lr": 0.1, "rho": 0.5, "eps": 1e-3, "weight_decay": 0.1},
        {"lr": 0.1, "maximize": True},
        {"lr": 0.1, "foreach": True},
        {},
    ],
    optim.RMSprop: [
        {"lr": 0.1},
        {"lr": 0.1, "alpha": 0.5, "momentum": 0.5, "centered": True},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "maximize": True},
        {"lr": 0.1, "foreach": True},
        {},
    ],
    optim.Rprop: [
        {"lr": 0.1},
        {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 1.0)},
        {"lr": 0.1, "maximize": True},
        {"lr": 0.1, "foreach": True},
        {},
    ],
    optim.Adamax: [
        {"lr": 0.1},
        {"lr": 0.1, "betas": (0.8, 0.99), "eps": 1e-4, "weight_decay": 0.1},
        {"lr": 0.1, "maximize": True},
        {"lr": 0.1, "foreach": True},
        {},
    ],
    optim.NAdam: [{"lr": 0.1}, {"lr": 0.1, "momentum_decay": 0.1}, {}],
    optim.RAdam: [{"lr": 0.1}, {"lr": 0.1, "weight_decay": 0.1}, {}],
    optim.ASGD: [{"lr": 0.1}, {"lr": 0.1, "lambd": 0.1, "alpha": 0.5, "t0": 1.0}, {}],
    optim.Adafactor: [{"lr": 0.1}, {}],
    optim.SparseAdam: [{"lr": 0.1}, {}],
    optim.Muon: [{"lr": 0.1}, {}],
    optim.LBFGS: [{"lr": 0.1}],
}
#: options that the class refuses, which it has to do here
REFUSED = {
    optim.SGD: [
        {"lr": -1.0},
        {"lr": 0.1, "nesterov": True},
        {"lr": 0.1, "momentum": -1.0},
        {"lr": 0.1, "weight_decay": -1.0},
        {"nothing": 1},
    ],
    optim.Adam: [
        {"lr": -1.0},
        {"betas": (1.5, 0.9)},
        {"eps": -1.0},
        {"weight_decay": -1.0},
        {"foreach": True, "fused": True},
    ],
    optim.Adagrad: [{"lr": -1.0}, {"lr_decay": -1.0}],
    optim.Adadelta: [{"rho": 2.0}, {"eps": -1.0}],
    optim.RMSprop: [{"alpha": -1.0}, {"momentum": -1.0}],
    optim.Rprop: [{"etas": (2.0, 1.5)}, {"lr": -1.0}],
    optim.Adamax: [{"betas": (2.0, 0.9)}],
    optim.NAdam: [{"lr": -1.0}],
    optim.RAdam: [{"lr": -1.0}],
    optim.ASGD: [{"lr": -1.0}],
}
#: by name of a kind: the value of a parameter, and what is summed up for a loss
KINDS = {
    "real": (lambda: torch.tensor([[1.0, -2.0], [3.0, 0.5]]), lambda w: (w * w).sum()),
    "double": (
        lambda: torch.tensor([[1.0, -2.0], [3.0, 0.5]], dtype=torch.float64),
        lambda w: (w * w).sum(),
    ),
    "complex": (
        lambda: torch.tensor([[1.0 + 2j, -2.0 + 1j], [3.0 - 1j, 0.5j]]),
        lambda w: (w * w.conj()).real.sum() + w.imag.sum(),
    ),
    "sparse": (
        lambda: torch.tensor([[1.0, -2.0], [3.0, 0.5]]),
        lambda w: torch.nn.functional.embedding(torch.tensor([1, 1]), w, sparse=True).pow(2).sum(),
    ),
    "one without gradient": (lambda: torch.tensor([[1.0, -2.0], [3.0, 0.5]]), None),
}


class Holder:
    """Parameters on a worker."""

    def __init__(self, kind):
        self.loss = KINDS[kind][1] or KINDS["real"][1]
        self.weights = [torch.nn.Parameter(KINDS[kind][0]()) for _ in range(2)]
        self.used = self.weights if KINDS[kind][1] else self.weights[1:]

    def forward(self):
        return sum(self.loss(weight) for weight in self.used)

    def parameters(self):
        return [rpc.RRef(weight) for weight in self.weights]

    def values(self):
        return [weight.detach() for weight in self.weights]


def alone(kind, cls, options):
    holder = Holder(kind)
    optimizer = cls(holder.weights, **options)
    for _ in range(STEPS):
        optimizer.zero_grad()
        holder.forward().backward()
        optimizer.step()
    return holder.values()


def together(to, kind, cls, options):
    holder = rpc.remote(to, Holder, (kind,))
    optimizer = DistributedOptimizer(cls, holder.rpc_sync().parameters(), **options)
    for _ in range(STEPS):
        with dist_autograd.context() as context_id:
            dist_autograd.backward(context_id, [holder.rpc_sync().forward()])
            optimizer.step(context_id)
    return holder.rpc_sync().values()


def close(one, other):
    if isinstance(one, list) and isinstance(other, list):
        return all(
            a.dtype == b.dtype and torch.allclose(a, b, rtol=1e-5, atol=1e-7)
            for a, b in zip(one, other, strict=True)
        )
    # An error of a step is one of a call, and may be told as such.
    return alike(one, other) or (isinstance(one, type) and isinstance(other, type))


def main():
    for cls, sets in OPTIONS.items():
        for number, options in enumerate(sets):
            for kind in KINDS if number == 0 else ("real",):
                said = ", ".join(f"{name}={value!r}" for name, value in options.items())
                here = outcome(lambda: alone(kind, cls, options))
                there = outcome(lambda: together("w1" if number % 2 else "w2", kind, cls, options))
                promise(
                    f"{cls.__name__}({said}), {kind}",
                    lambda: there if not close(there, here) else here,
                    here,
                )
    for cls, sets in REFUSED.items():
        for options in sets:
            promise(
                f"{cls.__name__}({options}) is refused",
                lambda: isinstance(outcome(lambda: together("w1", "real", cls, options)), type),
                True,
            )
    promise(
        "no parameters",
        lambda: isinstance(outcome(lambda: DistributedOptimizer(optim.SGD, [], lr=0.1)), type),
        True,
    )


if __name__ == "__main__":
    start(main)
