"""``subprocess`` in a script: a command that starts Python on a script, a text or a module starts a
simulated process, any other command a real one.

Either engine says how a simulated process is started, and answers about it. Imports no torch.
"""

from __future__ import annotations

import errno
import io
import os
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from time import monotonic
from types import FunctionType
from typing import Any, Literal

from squall.sim.scripts.python_command import CannotRun, PythonCommand, read
from squall.sim.scripts.started_programs import by_library

#: what a stream of a new process is: that of its parent, a pipe to it, where standard output goes, or
#: a file, by its number in the parent
StreamKind = Literal["inherit", "pipe", "stdout", "null"] | int
#: what a pipe takes and gives at a time
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Request:
    """What a new process runs and finds. ``streams``: standard input, output and error; ``cwd``: its
    folder, None for that of its parent; ``environ``: None for what a child inherits."""

    command: PythonCommand
    environ: Mapping[str, str] | None
    cwd: str | None
    streams: tuple[StreamKind, StreamKind, StreamKind]


#: seconds of real time for which a program of the system runs on, at most, each time that somebody looks after it
_LOOK_S = 1.0
#: and between two looks of one who waits for it, where the system does not tell of its end
_PAUSE_S = 0.01


class Started:
    """A simulated process as the one knows it that has started it. ``ask``: the coordinator; ``look``: called
    by who asks whether it has ended; ``pipes``: numbers of those to it, by stream."""

    def __init__(
        self,
        ask: Callable[..., Any],
        look: Callable[[], object],
        pid: int,
        pipes: Mapping[int, int],
    ) -> None:
        self._ask = ask
        self._look = look
        self.pid = pid
        self._pipes = pipes

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        self._look()  # whoever polls lets time go on
        return self.wait(0)

    def wait(self, timeout_s: float | None) -> int | None:
        """The same once it has ended, or after so many seconds of virtual time."""
        code: int | None = self._ask("child wait", [self.pid], timeout_s).get(self.pid)
        return code

    def signal(self, number: int) -> None:
        """Send it a signal. No effect once it has ended."""
        self._ask("child kill", self.pid, number)

    def feed(self, data: bytes) -> None:
        """Write to its standard input. Raises BrokenPipeError once it has ended."""
        if not self._ask("pipe write", self._pipes[0], data):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def end_feed(self) -> None:
        """It will read no more than what it was fed."""
        self._ask("pipe end", self._pipes[0])

    def read(self, stream: int, most: int) -> bytes:
        """What it has written to 1, standard output, or 2, standard error: at least a byte, b"" once
        it has ended."""
        data: bytes = self._ask("pipe read", self._pipes[stream], most)
        return data


Start = Callable[[Request], Started]


def module_spec(
    name: str, find: Callable[[str, Sequence[str]], ModuleSpec | None], places: Sequence[str]
) -> ModuleSpec:
    """That of ``python -m``, which ``find`` finds in places. Raises :class:`CannotRun` unless it is the user's."""
    spec = None
    for end in [at for at, letter in enumerate(f"{name}.") if letter == "."]:
        spec = find(name[:end], places)
        if spec is None:
            break
        places = list(spec.submodule_search_locations or ())
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find(f"{name}.__main__", places)
    if spec is None or spec.origin is None:
        raise CannotRun("subprocess.Popen", f"the module {name} is none of the script's own")
    return spec


def reading(raw: io.RawIOBase) -> io.TextIOWrapper:
    """What the standard input of a process is that reads there."""
    return io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8")


def writing(raw: Any) -> io.TextIOWrapper:
    """What the standard output of a process is that writes there."""
    return io.TextIOWrapper(raw, encoding="utf-8", write_through=True)


class ReadEnd(io.RawIOBase):
    """Bytes that ``read(most)`` gives, b"" at their end."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        super().__init__()
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._read(min(len(buffer), _CHUNK))
        buffer[: len(data)] = data
        return len(data)


class WriteEnd(io.RawIOBase):
    """Bytes that go to ``write(data)``."""

    def __init__(
        self, write: Callable[[bytes], object], end: Callable[[], object] | None = None
    ) -> None:
        super().__init__()
        self._write = write
        self._end = end

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        text = bytes(data)
        self._write(text)
        return len(text)

    def close(self) -> None:
        if not self.closed:
            end, self._end = self._end, None
            if end is not None:
                end()
        super().close()


class _Popen(subprocess.Popen):  # type: ignore[type-arg]
    """One whose Python is started by :attr:`_start`, all else by the system."""

    _started: Started | None = None
    #: when a program of the system was started: in virtual time, and by the clock on the wall
    _begun = 0.0, 0.0

    @staticmethod
    def _start(request: Request) -> Started:
        raise NotImplementedError("said by popen()")

    @staticmethod
    def _now() -> float:
        raise NotImplementedError("said by popen()")

    def __init__(
        self,
        args: Any,
        bufsize: int = -1,
        executable: Any = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        preexec_fn: Any = None,
        close_fds: bool = True,
        shell: bool = False,
        cwd: Any = None,
        env: Any = None,
        universal_newlines: bool | None = None,
        *rest: Any,
        **more: Any,
    ) -> None:
        command = None
        if not by_library():
            command = read(args, shell=bool(shell), executable=executable)
        if command is None:
            self._begun = self._now(), monotonic()
            super().__init__(
                args, bufsize, executable, stdin, stdout, stderr, preexec_fn, close_fds, shell,
                cwd, env, universal_newlines, *rest, **more,
            )  # fmt: skip
            return
        self._child_created = False  # no real one
        if preexec_fn is not None:
            raise CannotRun("subprocess.Popen", "preexec_fn is not simulated")
        text, encoding, errors = (more.get(name) for name in ("text", "encoding", "errors"))
        self.args = args
        self.encoding, self.errors = encoding, errors
        self.text_mode = bool(encoding or errors or text or universal_newlines)
        self.stdin = self.stdout = self.stderr = None
        self.returncode: int | None = None
        request = _request(command, (stdin, stdout, stderr), cwd, env)
        self._started = started = self._start(request)
        self.pid = started.pid
        if request.streams[0] == "pipe":
            write_end = WriteEnd(started.feed, started.end_feed)
            self.stdin = self._wrapped(write_end, bufsize)
        if request.streams[1] == "pipe":
            self.stdout = self._wrapped(ReadEnd(lambda most: started.read(1, most)), bufsize)
        if request.streams[2] == "pipe":
            self.stderr = self._wrapped(ReadEnd(lambda most: started.read(2, most)), bufsize)

    def _wrapped(self, raw: ReadEnd | WriteEnd, bufsize: int) -> Any:
        if isinstance(raw, ReadEnd):
            readable = io.BufferedReader(raw)
            if not self.text_mode:
                return readable
            return io.TextIOWrapper(readable, encoding=self.encoding, errors=self.errors)
        writable: Any = raw if bufsize == 0 else io.BufferedWriter(raw)
        if not self.text_mode:
            return writable
        return io.TextIOWrapper(
            writable, encoding=self.encoding, errors=self.errors, line_buffering=bufsize == 1
        )

    def poll(self) -> int | None:
        if self._started is None:
            self._let_run()
            return super().poll()
        if self.returncode is None:
            self.returncode = self._started.poll()
        return self.returncode

    def _let_run(self) -> None:
        """A program of the system needs real time: who looks after it in a loop would sleep for hours meanwhile."""
        begun_s, really_begun_s = self._begun
        behind_s = (self._now() - begun_s) - (monotonic() - really_begun_s)
        if behind_s > 0 and self.returncode is None:
            with suppress(subprocess.TimeoutExpired):
                self._wait_really(min(behind_s, _LOOK_S))

    def _wait_really(self, timeout_s: float) -> int:
        """For a program of the system, whose time is real; that of ``time.sleep`` is not."""
        end_s = monotonic() + timeout_s
        while (code := super().poll()) is None:
            left_s = end_s - monotonic()
            if left_s <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout_s)
            _until_it_ends(self.pid, left_s)
        return code

    def wait(self, timeout: float | None = None) -> int:
        if self._started is None:
            return super().wait() if timeout is None else self._wait_really(timeout)
        if self.returncode is None:
            self.returncode = self._started.wait(timeout)
        if self.returncode is None:
            assert timeout is not None, "without a limit it waits for the end"
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        if self._started is None:
            return super().communicate(input, timeout)
        if self.stdin is not None and not self.stdin.closed:
            try:
                if input:
                    self.stdin.write(input)
                self.stdin.close()
            except BrokenPipeError:
                pass  # it has ended, and read no more
        self.wait(timeout)
        found = []
        for stream in (self.stdout, self.stderr):
            found.append(None if stream is None else stream.read())
            if stream is not None:
                stream.close()
        return found[0], found[1]

    def send_signal(self, sig: int) -> None:
        if self._started is None:
            super().send_signal(sig)
        elif self.returncode is None:
            self._started.signal(int(sig))


def _until_it_ends(pid: int, timeout_s: float) -> None:
    """Or not so long. On the engine ``torch`` a process is at work that waits for a program: it has to wake as that ends."""
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        select.select((), (), (), min(timeout_s, _PAUSE_S))
        return
    try:
        select.select((fd,), (), (), timeout_s)
    finally:
        os.close(fd)


def popen(start: Start, now: Callable[[], float]) -> type[subprocess.Popen[Any]]:
    """``subprocess.Popen`` whose Python is started by ``start``. ``now``: seconds of virtual time."""
    return type("Popen", (_Popen,), {"_start": staticmethod(start), "_now": staticmethod(now)})


def functions(start: Start, now: Callable[[], float]) -> dict[str, Any]:
    """By name: what takes the place of functions and classes of ``subprocess``. See :func:`popen`."""
    own: dict[str, Any] = {**vars(subprocess), "Popen": popen(start, now)}
    found = {"Popen": own["Popen"]}
    # The standard library's own functions, which know the class by its name.
    names = ("run", "call", "check_call", "check_output", "getstatusoutput", "getoutput")
    for name in names:
        real = getattr(subprocess, name)
        function = FunctionType(real.__code__, own, name, real.__defaults__, real.__closure__)
        function.__kwdefaults__ = real.__kwdefaults__
        function.__module__, function.__doc__ = "subprocess", real.__doc__
        found[name] = own[name] = function
    return found


def system(popen: Callable[..., Any]) -> Callable[[Any], int]:
    """``os.system``."""
    real = os.system

    def system(command: Any) -> int:
        if by_library() or read(command, shell=True, called="os.system") is None:
            return real(command)
        code: int = popen(command, shell=True).wait()
        return code << 8 if code >= 0 else -code

    return system


def os_environ() -> dict[str, str]:
    """That of the running process."""
    return dict(os.environ)


def file_not_there(path: str, error: OSError) -> str:
    """What Python says of a script that it cannot open, before it ends with exit code 2."""
    return f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {os.strerror(error.errno or 0)}\n"


def _request(command: PythonCommand, streams: tuple[Any, Any, Any], cwd: Any, env: Any) -> Request:
    """What ``Popen`` was asked for. Raises FileNotFoundError and NotADirectoryError, as it does."""
    if cwd is not None and not os.path.isdir(cwd):
        problem = NotADirectoryError if os.path.exists(cwd) else FileNotFoundError
        number = errno.ENOTDIR if os.path.exists(cwd) else errno.ENOENT
        raise problem(number, os.strerror(number), os.fsdecode(cwd))
    environ = None if env is None else {**_decoded(env), **dict(command.environ)}
    if env is None and command.environ:
        environ = {**os_environ(), **dict(command.environ)}
    stdin, stdout, stderr = streams
    return Request(
        command,
        environ,
        None if cwd is None else os.path.abspath(os.fsdecode(cwd)),
        (_kind(stdin, 0), _kind(stdout, 1), _kind(stderr, 2)),
    )


def _decoded(env: Mapping[Any, Any]) -> dict[str, str]:
    return {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}


def _kind(given: Any, of: int) -> StreamKind:
    """What ``stdin``, ``stdout`` or ``stderr`` means. Raises ValueError and what ``fileno`` raises."""
    if given is None:
        return "inherit"
    if given == subprocess.PIPE:
        return "pipe"
    if given == subprocess.DEVNULL:
        return "null"
    if given == subprocess.STDOUT:
        if of != 2:
            raise ValueError("STDOUT can only be used for stderr")
        return "stdout"
    # A stream that is captured has no number.
    standard = {1: sys.stdout, 2: sys.stderr}
    for number, stream in standard.items():
        if given is stream:
            return number
    return given if isinstance(given, int) else int(given.fileno())
