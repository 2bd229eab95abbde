"""Kernel specs: frozen dataclasses that hold everything their code depends on. Equal specs share code."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import llvmlite
from llvmlite import ir

from ..records import dataclass
from .builder import Code
from .target import Target


@dataclass(frozen=True)
class KernelSpec:
    """Base of all specs. A kernel is `void f(ptr arguments, i64 task, ptr scratch)`; see `Code`.

    Subclasses say into how many tasks the work falls, emit the code, and count what it does.
    """

    @property
    def tasks(self) -> int:
        """Number of independent shares of the work."""
        raise NotImplementedError

    @property
    def scratch_floats(self) -> int:
        """Floats of scratch memory that a thread needs."""
        return 0

    @property
    def flops(self) -> int:
        """Floating-point operations, a multiply-add as two, as the operator's definition counts them."""
        return 0

    @property
    def traffic(self) -> int:
        """Bytes that must be read and written at least."""
        return 0

    def emit(self, code: Code) -> None:
        """Writes the body of the function."""
        raise NotImplementedError

    def module(self, name: str, target: Target) -> ir.Module | str:
        """The whole LLVM module, or its text."""
        code = Code(name, target)
        self.emit(code)
        return code.finish()

    @property
    def family(self) -> str:
        """What names of kernels begin with."""
        return type(self).__name__

    def functions(self, name: str) -> tuple[str, ...]:
        """The functions that others may call in the module of that name."""
        return (name,)


@dataclass(frozen=True)
class TextSpec(KernelSpec):
    """A module that is there as text, of functions that are no kernels."""

    title: str
    text: str
    exported: tuple[str, ...]

    @property
    def family(self) -> str:
        """The title."""
        return self.title

    def module(self, name: str, target: Target) -> str:
        """The text itself."""
        return self.text

    def functions(self, name: str) -> tuple[str, ...]:
        """Those that it exports."""
        return self.exported


@functools.cache
def generator_digest() -> str:
    """A digest of the code generator itself and of llvmlite: code that another version made is never taken."""
    digest = hashlib.sha256(llvmlite.__version__.encode())
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def kernel_name(spec: KernelSpec, target: Target) -> str:
    """A name that tells kernels apart: the kind, and a digest of spec, target and generator."""
    text = f"{spec!r}|{target!r}|{generator_digest()}"
    return f"{spec.family}_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
