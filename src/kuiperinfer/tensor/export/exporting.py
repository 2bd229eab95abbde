"""From a module to a PNNX model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ... import pnnx
from ...dtypes import f32
from ...errors import InputError
from ..casting import DTypeLike, as_dtype
from ..nn import Module
from .dynamic import merge
from .graph import build_graph
from .steps import simplify
from .tracing import trace

Shapes: TypeAlias = Sequence[int] | Sequence[Sequence[int]]


def export(
    module: Module,
    param: pnnx.Writable,
    input_shapes: Shapes,
    input_shapes2: Shapes | None = None,
    *,
    dtypes: DTypeLike | Sequence[DTypeLike] = f32,
    bin: pnnx.Writable | None = None,
) -> None:
    """Writes a module, as it is at inference, to `net.pnnx.param` and `net.pnnx.bin`.

    `input_shapes` is the shape of the input, or a list of the shapes of several; `dtypes` are their dtypes. The module is run
    on such inputs, and every step is written as the converter writes it; what `forward` does in Python (loops, branches) is
    settled by that run. Where dimensions are to stay free, `input_shapes2` gives other sizes for them. The module is run a
    second time, with these and with other values, and what differs is left open, or refused where it cannot be.

    Raises `InputError` for what the format has no operator for, and for numbers that would have to follow the input.
    """
    if not isinstance(module, Module):
        raise InputError(f"export: expected a module, found {type(module).__name__}")
    shapes = _shapes(input_shapes)
    kinds = [as_dtype(dtype) for dtype in (dtypes if isinstance(dtypes, (list, tuple)) else [dtypes] * len(shapes))]
    if len(kinds) != len(shapes):
        raise InputError(f"export: {len(kinds)} dtypes for {len(shapes)} inputs")
    others = shapes if input_shapes2 is None else _shapes(input_shapes2)
    if [len(shape) for shape in others] != [len(shape) for shape in shapes]:
        raise InputError(f"export: input_shapes2 {others} has other inputs or dimensions than input_shapes {shapes}")
    run = merge(trace(module, shapes, kinds, seed=0), trace(module, others, kinds, seed=1))
    steps = simplify(run.steps, run.result)
    pnnx.write(build_graph(run.inputs, steps, run.result), param, bin)


def _shapes(shapes: Any) -> list[tuple[int, ...]]:
    if not isinstance(shapes, (tuple, list)):
        raise InputError(f"export: expected shapes, such as (1, 3, 224, 224), found {shapes!r}")
    several = [shapes] if all(isinstance(size, int) for size in shapes) else shapes
    found = [tuple(shape) if isinstance(shape, (tuple, list)) else (shape,) for shape in several]
    for shape in found:
        if not all(isinstance(size, int) and size >= 0 for size in shape):
            raise InputError(f"export: expected shapes, such as (1, 3, 224, 224), found {shape}")
    return found
