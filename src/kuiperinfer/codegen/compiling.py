"""Many kernels compiled at once: in processes beside this one, for LLVM compiles one at a time in each.

What LLVM takes of memory goes with these processes, too. They are started by this one, are told specs through a pipe, and
answer with object files. Where they cannot be started, or fail in any way, this process compiles what is left.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING

from ..errors import CompileError
from ..settings import settings
from .objects import compile_module
from .processors import allowed_cpus
from .spec import KernelSpec, generator_digest
from .target import Target

if TYPE_CHECKING:
    import subprocess

# Fewer kernels for each process are compiled sooner than it starts.
_WORTH_A_PROCESS = 6

# `-I` keeps the working directory and the environment out of the search path, until the path of this process takes its place.
_PROGRAM = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from kuiperinfer.codegen.compiling import serve; serve()"
)


def compile_kernels(specs: Mapping[str, KernelSpec], target: Target) -> Iterator[tuple[str, bytes]]:
    """Name and object file of all kernels, in the order in which they are done."""
    left = dict(specs)
    for name, code in _by_processes(specs, target, min(_most_processes(), len(specs) // _WORTH_A_PROCESS)):
        del left[name]
        yield name, code
    for name, spec in left.items():
        yield name, compile_module(spec.module(name, target), target)


def _most_processes() -> int:
    most = settings.compile_processes or allowed_cpus()
    is_python = os.path.basename(sys.executable or "").startswith("python")  # and no program that has it built in
    return most if most > 1 and is_python and not getattr(sys, "frozen", False) else 0


def _by_processes(specs: Mapping[str, KernelSpec], target: Target, count: int) -> Iterator[tuple[str, bytes]]:
    """What `count` processes make of the kernels: all of them, or as many as they can."""
    waiting: queue.SimpleQueue[tuple[str, KernelSpec]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[str, bytes] | None] = queue.SimpleQueue()  # None: a process has ended
    for item in specs.items():
        waiting.put(item)
    processes = [process for _ in range(count) if (process := _start()) is not None]
    threads = [
        threading.Thread(target=_converse, args=(process, target, waiting, done), daemon=True) for process in processes
    ]
    try:
        for thread in threads:
            thread.start()
        running = len(threads)
        while running:
            answer = done.get()
            if answer is None:
                running -= 1
            else:
                yield answer
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for thread in threads:
            thread.join()


def _start() -> subprocess.Popen[bytes] | None:
    import subprocess

    with contextlib.suppress(OSError, ValueError):
        return subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process, which stops them
        )
    return None


def _converse(
    process: subprocess.Popen[bytes],
    target: Target,
    waiting: queue.SimpleQueue[tuple[str, KernelSpec]],
    done: queue.SimpleQueue[tuple[str, bytes] | None],
) -> None:
    """Gives one process a kernel after another, until none is left or it fails."""
    assert process.stdin is not None and process.stdout is not None
    try:
        with process.stdin, process.stdout:
            _send(process.stdin, sys.path)
            _send(process.stdin, (generator_digest(), target))
            while True:
                name, spec = waiting.get_nowait()
                _send(process.stdin, (name, spec))
                code = pickle.load(process.stdout)
                if code is not None:
                    done.put((name, code))
    except Exception:  # the queue is empty, or the process is not what it should be
        pass  # what is not done, this process compiles itself: it meets the same error, if it was one of the kernel
    finally:
        done.put(None)


def _send(stream: IO[bytes], value: object) -> None:
    pickle.dump(value, stream)
    stream.flush()


def serve() -> None:
    """What a process does that was started to compile: answers each kernel with its object file, None where it has none."""
    source, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing that is printed gets among the answers
    digest, target = pickle.load(source)
    if digest != generator_digest():  # the package was changed since that process began
        return
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            name, spec = pickle.load(source)
            try:
                code = compile_module(spec.module(name, target), target)
            except CompileError:
                code = None
            _send(answers, code)
