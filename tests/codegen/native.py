"""Kernels compiled for tests: many specs in one module, called like functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from llvmlite import ir

from kuiperinfer.codegen.builder import Code
from kuiperinfer.codegen.objects import KERNEL_TYPE, Library, compile_module
from kuiperinfer.codegen.spec import KernelSpec
from kuiperinfer.codegen.target import Target, runs_here, target_named
from kuiperinfer.dtypes import Array
from kuiperinfer.memory.aligned import aligned_empty

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


TARGETS = [level for level in LEVELS if runs_here(target_named(level))]  # what this machine can run


def module_of(specs: Sequence[KernelSpec], target: Target) -> ir.Module:
    """One module with the kernels `k0`, `k1`, …"""
    module = ir.Module("kernels")
    module.triple = target.triple
    for number, spec in enumerate(specs):
        code = Code(f"k{number}", target, module)
        spec.emit(code)
        code.finish()
    return module


def compile_specs(specs: Sequence[KernelSpec], target_name: str) -> list[Callable[..., None]]:
    """A function for each spec: it takes the kernel's arguments as arrays, and runs all tasks."""
    target = target_named(target_name)
    names = [f"k{number}" for number in range(len(specs))]
    library = Library([compile_module(module_of(specs, target), target)], names, target)

    def function(name: str, spec: KernelSpec) -> Callable[..., None]:
        kernel = KERNEL_TYPE(library.addresses[name])

        def run(*arrays: Array) -> None:
            arguments = np.array([array.ctypes.data for array in arrays], np.int64)
            scratch = aligned_empty(max(1, spec.scratch_floats), np.float32)
            for task in range(spec.tasks):
                kernel(arguments.ctypes.data, task, scratch.ctypes.data)

        run.library = library  # type: ignore[attr-defined]  # the code lives as long as its library
        return run

    return [function(name, spec) for name, spec in zip(names, specs, strict=True)]


def aligned(array: Array) -> Array:
    """A copy at an address that vectors may be loaded from."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy
