"""RemoteModule "behaves like a regular nn.Module except that the forward method is executed on the remote node"."""

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from promise import outcome, promise, same_as_here, start
from torch import nn
from torch.distributed.nn.api.remote_module import RemoteModule

SEEN = []


class Net(nn.Module):
    def __init__(self, n=2, scale=1.0):
        super().__init__()
        torch.manual_seed(3)
        self.inner = nn.Linear(n, n)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("count", torch.zeros(1))
        self.scale = scale

    def forward(self, x, *, add=0.0):
        self.count += 1
        return self.inner(x) * self.scale + add

    def mode(self):
        return self.training, self.inner.training, self.drop.training


class Hooked(Net):
    def __init__(self):
        super().__init__()
        self.register_forward_hook(lambda module, args, out: out + 100)
        self.register_forward_pre_hook(lambda module, args: (args[0] * 0,))


def mode(ref):
    return ref.local_value().mode()


def grads(ref):
    return [each.requires_grad for each in ref.local_value().parameters()]


def main():
    x = torch.ones(1, 2)
    for device in ("w1/cpu", "w1", "rank:1/cpu", "w0/cpu"):
        promise(
            f"forward on {device}",
            lambda device=device: RemoteModule(device, Net)(x),
            Net()(x).detach().requires_grad_(),
        )
    for device in ("nobody/cpu", "w1/nothing", "", "/", "w1/cpu/0", "rank:9/cpu", "w1/cpu:-1"):
        promise(
            f"device {device!r} is refused",
            lambda device=device: isinstance(outcome(lambda: RemoteModule(device, Net)), type),
            True,
        )
    remote, here = RemoteModule("w1/cpu", Net, kwargs={"scale": 2.0}), Net(scale=2.0)
    same_as_here("forward", lambda: remote.forward(x), lambda: here.forward(x))
    same_as_here("a call", lambda: remote(x), lambda: here(x))
    same_as_here("by keyword", lambda: remote(x, add=1.0), lambda: here(x, add=1.0))
    same_as_here(
        "forward_async", lambda: remote.forward_async(x, add=1.0).wait(), lambda: here(x, add=1.0)
    )
    same_as_here("a wrong argument", lambda: remote(x, nothing=1), lambda: here(x, nothing=1))
    same_as_here("too few arguments", lambda: remote(), lambda: here())
    promise("the reference is at w1", lambda: remote.get_module_rref().owner_name(), "w1")
    promise(
        "parameters by reference",
        lambda: [each.to_here().shape for each in remote.remote_parameters()],
        [each.shape for each in here.parameters()],
    )
    promise("parameters of itself alone", lambda: remote.remote_parameters(recurse=False), [])
    promise(
        "the device",
        lambda: (remote.on, str(remote.device), remote.is_device_map_set),
        ("w1", "cpu", False),
    )

    same_as_here("training", lambda: remote.training, lambda: here.training)
    for name, change in {
        "eval()": lambda module: module.eval(),
        "train()": lambda module: module.train(),
        "train(False)": lambda module: module.train(False),
        "train(mode=True)": lambda module: module.train(mode=True),
        "train(mode=False)": lambda module: module.train(mode=False),
    }.items():
        promise(
            f"{name} gives the module",
            lambda change=change: change(remote) is remote,
            change(here) is here,
        )
        promise(
            f"{name}, elsewhere",
            lambda: rpc.rpc_sync("w1", mode, (remote.get_module_rref(),)),
            here.mode(),
        )
        promise(f"{name}, the flag", lambda: remote.training, here.training)

    same_as_here(
        "hooks of the module", lambda: RemoteModule("w1/cpu", Hooked)(x), lambda: Hooked()(x)
    )
    same_as_here(
        "hooks of the module, asynchronously",
        lambda: RemoteModule("w1/cpu", Hooked).forward_async(x).wait(),
        lambda: Hooked()(x),
    )
    for name in (
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_backward_hook",
    ):
        # It must run, or be refused.
        def runs(name=name):
            module, seen = RemoteModule("w1/cpu", Net), []
            try:
                getattr(module, name)(lambda *_: seen.append(1))
            except ValueError:
                return True
            with dist_autograd.context() as context_id:
                dist_autograd.backward(
                    context_id, [module(torch.ones(1, 2, requires_grad=True)).sum()]
                )
            return bool(seen)

        promise(f"{name} of the remote module runs, or is refused", runs, True)

    # Of what a module has besides, each does here what it says, is refused, or acts on the remote module.
    refused = (
        "register_buffer",
        "register_parameter",
        "add_module",
        "apply",
        "cuda",
        "cpu",
        "type",
        "float",
        "double",
        "half",
        "bfloat16",
        "to",
        "parameters",
        "named_parameters",
        "buffers",
        "named_buffers",
        "children",
        "named_children",
        "modules",
        "named_modules",
        "requires_grad_",
        "zero_grad",
        "share_memory",
        "extra_repr",
        "state_dict",
        "load_state_dict",
    )
    args = {
        "register_buffer": ("b", x),
        "register_parameter": ("p", None),
        "add_module": ("m", nn.Linear(1, 1)),
        "apply": (print,),
        "type": (torch.float64,),
        "to": ("cpu",),
        "load_state_dict": ({},),
    }
    for name in refused:
        promise(
            f"{name} is refused",
            lambda name=name: list(
                outcome(lambda: 0) or getattr(remote, name)(*args.get(name, ()))
            ),
            ValueError,
        )
    for name in (
        "get_parameter",
        "get_buffer",
        "get_submodule",
        "get_extra_state",
        "set_submodule",
        "register_module",
        "ipu",
        "xpu",
        "mtia",
        "to_empty",
        "set_extra_state",
        "register_state_dict_pre_hook",
        "register_load_state_dict_post_hook",
    ):
        called = {
            "get_parameter": ("inner.weight",),
            "get_buffer": ("count",),
            "get_submodule": ("inner",),
            "register_module": ("m", None),
            "set_submodule": ("inner", nn.Linear(1, 1)),
            "to_empty": (),
            "set_extra_state": ({},),
        }.get(name, (print,) if "hook" in name else ())
        kwargs = {"device": "cpu"} if name == "to_empty" else {}

        def not_empty(name=name, called=called, kwargs=kwargs):
            got = outcome(lambda: getattr(RemoteModule("w1/cpu", Net), name)(*called, **kwargs))
            return "refused" if isinstance(got, type) else "taken"

        promise(f"{name} is refused, as it cannot act elsewhere", not_empty, "refused")
    promise("repr says where it is", lambda: "w1" in repr(remote), True)
    promise(
        "a module that contains it has parameters",
        lambda: [each.shape for each in nn.Sequential(nn.Linear(1, 1), remote).parameters()][0],
        torch.Size([1, 1]),
    )
    promise("it is a module", lambda: isinstance(remote, nn.Module), True)
    promise("an attribute that is not there", lambda: remote.nothing, AttributeError)

    other = RemoteModule.init_from_module_rref("w1/cpu", remote.get_module_rref())
    same_as_here("from a reference", lambda: other(x), lambda: here(x))
    promise(
        "from a reference, the same module",
        lambda: rpc.rpc_sync(
            "w1", same_module, (remote.get_module_rref(), other.get_module_rref())
        ),
        True,
    )
    same_as_here(
        "sent to another worker",
        lambda: rpc.rpc_sync("w2", use, (remote, x)),
        lambda: here(x).detach(),
    )
    same_as_here(
        "sent, called", lambda: rpc.rpc_sync("w2", call, (remote, x)), lambda: here(x).detach()
    )
    same_as_here(
        "sent, asked for its mode",
        lambda: rpc.rpc_sync("w2", training, (remote,)),
        lambda: here.training,
    )
    promise(
        "pickled without RPC is refused",
        lambda: isinstance(outcome(lambda: __import__("pickle").dumps(remote)), type),
        True,
    )
    for number in (1, 2):
        with dist_autograd.context() as context_id:
            leaf = torch.ones(1, 2, requires_grad=True)
            dist_autograd.backward(context_id, [remote(leaf).sum()])
            got = dist_autograd.get_gradients(context_id)[leaf]
        mine = torch.ones(1, 2, requires_grad=True)
        here(mine).sum().backward()
        promise(f"the gradient, time {number}", lambda got=got: got, mine.grad)


def same_module(one, other):
    return one.local_value() is other.local_value()


def use(module, x):
    return module.forward(x).detach()


def call(module, x):
    return module(x).detach()


def training(module):
    return module.training


if __name__ == "__main__":
    start(main)
