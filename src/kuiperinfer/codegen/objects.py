"""From LLVM IR to machine code at an address: object files made, linked, and kept alive."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator, Sequence
from typing import Any

from llvmlite import ir

from ..errors import CompileError
from ..locks import Lock
from .loading import link
from .target import Target, llvm

# LLVM and llvmlite share process-wide state: one compilation at a time.
_LOCK = Lock()

_MANY_REGISTERS = 32  # enough for all addresses of a loop


@functools.cache
def _machine(target: Target) -> Any:
    return target.machine()


def compile_module(module: ir.Module | str, target: Target) -> bytes:
    """A relocatable object file for a module. No IR passes run: kernels come unrolled and in SSA form.

    Raises `CompileError` where LLVM refuses the module.
    """
    with _LOCK:
        try:
            parsed = llvm().parse_assembly(str(module))
            parsed.verify()
            with _loop_strength_reduction(target.registers < _MANY_REGISTERS):
                return bytes(_machine(target).emit_object(parsed))
        except RuntimeError as error:
            raise CompileError(f"LLVM refuses the module: {error}") from error


def assembly_of(module: ir.Module | str, target: Target) -> str:
    """The assembly text of a module, to look at."""
    with _LOCK:
        parsed = llvm().parse_assembly(str(module))
        parsed.verify()
        with _loop_strength_reduction(target.registers < _MANY_REGISTERS):
            return str(_machine(target).emit_assembly(parsed))


@contextlib.contextmanager
def _loop_strength_reduction(wanted: bool) -> Iterator[None]:
    """A pass of LLVM's code generator switched on or off, and on again for whoever else uses LLVM in this process.

    It takes almost half of the time of code generation. Where registers are scarce it makes convolutions faster by 3 to 5 %,
    with 32 vector registers nothing.
    """
    llvm().set_option("", f"-disable-lsr={'false' if wanted else 'true'}")
    try:
        yield
    finally:
        llvm().set_option("", "-disable-lsr=false")


class Library:
    """Object files linked into the process; `addresses` of their functions by name. Code lives as long as this object."""

    def __init__(self, objects: Sequence[bytes], functions: Sequence[str], target: Target) -> None:
        self._code: Any = link(objects)  # what is held here keeps the code in memory
        if self._code is not None:
            found = self._code.addresses
        else:
            self._code, found = _link_with_llvm(objects, functions, target)
        self.addresses: dict[str, int] = {}
        for name in functions:
            if not found.get(name):
                raise CompileError(f"the object code of '{name}' does not define it")
            self.addresses[name] = found[name]


def _link_with_llvm(objects: Sequence[bytes], functions: Sequence[str], target: Target) -> tuple[Any, dict[str, int]]:
    with _LOCK:
        engine = llvm().create_mcjit_compiler(llvm().parse_assembly(""), target.machine())
        for data in objects:
            engine.add_object_file(llvm().ObjectFileRef.from_data(data))
        engine.finalize_object()
        return engine, {name: engine.get_function_address(name) for name in functions}


KERNEL_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
