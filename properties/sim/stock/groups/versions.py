"""How often autograd is told that a collective has written to a tensor, which it may need for a backward pass."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

RANKS = 3


def one() -> Tensor:
    return torch.zeros(4)


def two() -> list[Tensor]:
    return [torch.zeros(4) for _ in range(RANKS)]


def batch(tensor: Tensor) -> None:
    given = dist.P2POp(dist.isend, torch.zeros(4), (dist.get_rank() + 1) % RANKS)
    got = dist.P2POp(dist.irecv, tensor, (dist.get_rank() - 1) % RANKS)
    for work in dist.batch_isend_irecv([given, got]):
        work.wait()


def message(tensor: Tensor) -> None:
    if dist.get_rank() == 0:
        dist.send(tensor, 1)
    elif dist.get_rank() == 1:
        dist.recv(tensor, 0)


def coalesced(tensors: list[Tensor]) -> None:
    dist.all_reduce_coalesced(tensors)


CALLS: dict[str, tuple[Callable[..., object], list[Tensor | list[Tensor]]]] = {
    "all_reduce": (dist.all_reduce, [one()]),
    "all_reduce that averages": (lambda t: dist.all_reduce(t, dist.ReduceOp.AVG), [one()]),
    "all_reduce_coalesced": (coalesced, [two()]),
    "broadcast": (lambda t: dist.broadcast(t, 0), [one()]),
    "reduce": (lambda t: dist.reduce(t, 0), [one()]),
    "all_gather": (dist.all_gather, [two(), one()]),
    "all_gather_into_tensor": (dist.all_gather_into_tensor, [torch.zeros(4 * RANKS), one()]),
    "gather": (lambda t, p: dist.gather(t, None if dist.get_rank() else p), [one(), two()]),
    "scatter": (lambda t, p: dist.scatter(t, None if dist.get_rank() else p), [one(), two()]),
    "reduce_scatter_tensor that averages": (
        lambda t, given: dist.reduce_scatter_tensor(t, given, dist.ReduceOp.AVG),
        [one(), torch.zeros(4 * RANKS)],
    ),
    "reduce that averages": (lambda t: dist.reduce(t, 0, dist.ReduceOp.AVG), [one()]),
    "all_reduce of what does not lie in one piece": (
        lambda t: dist.all_reduce(t[::2]),
        [one()],
    ),
    "reduce_scatter": (dist.reduce_scatter, [one(), two()]),
    "reduce_scatter_tensor": (dist.reduce_scatter_tensor, [one(), torch.zeros(4 * RANKS)]),
    "all_to_all": (dist.all_to_all, [two(), two()]),
    "all_to_all_single": (dist.all_to_all_single, [torch.zeros(RANKS), torch.zeros(RANKS)]),
    "a message": (message, [one()]),
    "a batch of messages": (batch, [one()]),
    "all_reduce of a part": (lambda t: dist.all_reduce(t[1:3]), [one()]),
}


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for name, (call, args) in CALLS.items():
        try:
            call(*args)
        except RuntimeError as error:
            print(f"rank {rank}: {name} is refused: {str(error).splitlines()[0]}")
            continue
        tensors = [t for each in args for t in (each if isinstance(each, list) else [each])]
        print(f"rank {rank}: {name} {[each._version for each in tensors]}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
