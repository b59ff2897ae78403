"""Lines of Python as they are put together, and the parts that are the same in every script."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

_INDENT = "    "
#: columns that a line has at most where it can be broken
WIDTH = 99


class Lines:
    """Lines of a script, with the indentation that they have now."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 0

    def add(self, *lines: str) -> None:
        """These lines, each of which may be several."""
        for line in lines:
            for part in line.split("\n"):
                self.lines.append(_INDENT * self._depth + part if part else "")

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        """What is added inside is indented below ``head``; an empty block is a ``pass``."""
        self.add(head)
        self._depth += 1
        before = len(self.lines)
        try:
            yield
        finally:
            if not any(line.strip() and line.strip()[0] != "#" for line in self.lines[before:]):
                self.add("pass")
            self._depth -= 1

    def call(self, head: str, arguments: Iterable[str], tail: str = ")") -> None:
        """``head`` with its arguments, broken into lines where it is too long."""
        arguments = list(arguments)
        whole = f"{head}{', '.join(arguments)}{tail}"
        if len(whole) + len(_INDENT) * self._depth <= WIDTH:
            self.add(whole)
            return
        self.add(head)
        self._depth += 1
        for argument in arguments:
            self.add(f"{argument},")
        self._depth -= 1
        self.add(tail)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def arguments(names: Iterable[str]) -> str:
    """Names as a tuple of arguments."""
    names = list(names)
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


PLANTED_ERROR = '''class PlantedError(RuntimeError):
    """An error that this program asks for."""'''

RAISE_IN_BACKWARD = '''class RaiseInBackward(torch.autograd.Function):
    """The identity, whose backward raises."""

    @staticmethod
    def forward(ctx, x, text):
        ctx.text = text
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        raise PlantedError(ctx.text)'''

RAISER = '''def raiser(text):
    """A hook that raises."""

    def hook(grad):
        if grad is not None:
            raise PlantedError(text)

    return hook'''

GET_LEAF = """def get_leaf(name):
    return LEAVES[name]"""

TOGETHER = '''def together(functions):
    """Call all functions, each in a thread of its own; wait for them."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()'''

# Threads print at the same time: a line and its end are one piece, which none comes between.
RUN_STEP = '''def run_step(name, step, *args):
    """Whether a step ended well. Prints the error with which it did not."""
    try:
        step(name, *args)
    except Exception as error:
        print(f"{name}, error: {type(error).__name__}: {str(error).partition(chr(10))[0]}\\n", end="", flush=True)
        return False
    return True'''

RUN_STORY = '''def run_story(name, story, worker):
    """What came of a short test of the API beside a step, in a line."""
    try:
        told = story(worker)
    except Exception as error:
        told = f"it raised {type(error).__name__}: {error}"
    print(f"{name}: {str(told).partition(chr(10))[0]}\\n", end="", flush=True)'''

SHOW = '''def show(name, tensor):
    """A tensor in a line: its dtype, its shape and its elements."""
    dense = tensor.detach() if tensor.layout == torch.strided else tensor.detach().to_dense()
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{name}: {dtype} {list(dense.shape)} {dense.flatten().tolist()}"'''

GRADIENTS = '''def gradients_here(context_id):
    """The gradients that this worker has accumulated in a context, a line for each leaf."""
    try:
        gradients = dist_autograd.get_gradients(context_id)
    except RuntimeError:  # this worker does not know the context
        return []
    names = {id(leaf): name for name, leaf in LEAVES.items()}
    return sorted(show(names.get(id(x), "another tensor"), g) for x, g in gradients.items())


def show_gradients(name, context_id):
    """Print what all workers have accumulated in a context."""
    for worker in OWNERS:
        try:
            lines = rpc.rpc_sync(worker, gradients_here, args=(context_id,))
        except RuntimeError as error:
            lines = [f"cannot be asked: {type(error).__name__}"]
        for line in lines:
            print(f"{name}, {worker}, {line}\\n", end="", flush=True)'''

FREE_PORT = """def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]"""

MAIN = """def main():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(free_port()))
    mp.spawn(run, nprocs=WORLD_SIZE)


if __name__ == "__main__":
    main()"""
