"""Views as operators: which steps give what a view shows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import InputError
from ..indexing import spread
from .steps import Step, Value

TO_THE_END = 2**31 - 1  # the format's "to the end" of a slice, and its "no" where an index could be selected

Operator = tuple[str, dict[str, Any]]  # a type and its parameters
View = Callable[..., list[Step]]  # (input, output, *arguments of the view)


def _operator(type: str, input: Value, output: Value, **params: Any) -> list[Step]:
    return [Step(type, [input], [output], params, input_names=["input"])]


def _dim(dim: Any, value: Value) -> int:
    index = operator.index(dim)
    return index + len(value.shape) if index < 0 else index


def reshaped(input: Value, output: Value, *ignored: Any) -> list[Step]:
    """The elements in the shape of the output."""
    return _operator("Tensor.reshape", input, output, shape=output.shape)


def _expanded(input: Value, output: Value, sizes: Sequence[int]) -> list[Step]:
    return _operator("Tensor.expand", input, output, sizes=tuple(sizes))


def _squeezed(input: Value, output: Value, dim: Any = None) -> list[Step]:
    if dim is None:
        dim = tuple(number for number, size in enumerate(input.shape) if size == 1)
    return _operator("torch.squeeze", input, output, dim=dim) if dim != () else reshaped(input, output)


def _narrowed(input: Value, output: Value, dim: int, start: int, length: int) -> list[Step]:
    return _operator("torch.narrow", input, output, dim=dim, start=start, length=length)


# ------------------------------------------------------------------------------------------- slices and indices


def _sliced(
    input: Value, output: Value, dim: int = 0, start: int | None = None, stop: int | None = None, step: int | None = 1
) -> list[Step]:
    items = [slice(None)] * len(input.shape)
    items[_dim(dim, input)] = slice(start, stop, step)
    return indexed(input, output, tuple(items))


def indexed(input: Value, output: Value, items: tuple[Any, ...]) -> list[Step]:
    """One slicing for integers and slices; then flips for steps below zero, then new dimensions for None."""
    rows: list[tuple[int, int, int, int, int]] = []  # dim, start, end, step, select
    flips: list[int] = []  # dimensions of the sliced tensor that are walked backwards
    new: list[int] = []  # dimensions of the result that are new
    shape: list[int | None] = []  # of the sliced tensor
    dim = place = 0
    for item in spread(items, len(input.shape)):
        if item is None:
            new.append(place)
        elif isinstance(item, slice):
            size = input.shape[dim]
            assert size is not None
            start, end, step = _forwards(item, size)
            if (item.step or 1) < 0:
                flips.append(len(shape))
            if (start, end, step) != (0, TO_THE_END, 1):
                rows.append((dim, start, end, step, TO_THE_END))
            shape.append(len(range(*item.indices(size))))
        else:
            rows.append((dim, 0, 0, 0, operator.index(item)))
        dim += item is not None
        place += item is None or isinstance(item, slice)
    operators: list[Operator] = [_slicing(rows)] if rows else []
    if flips:
        operators.append(("torch.flip", {"dims": tuple(flips)}))
    shapes = [tuple(shape)] * len(operators)
    for dim in new:
        operators.append(("torch.unsqueeze", {"dim": dim}))
        shape = [*shape[:dim], 1, *shape[dim:]]
        shapes.append(tuple(shape))
    if not operators:
        return reshaped(input, output)
    steps: list[Step] = []
    for (type, params), between in zip(operators, shapes, strict=True):
        target = output if len(steps) == len(operators) - 1 else Value(between, input.dtype)
        steps += _operator(type, input, target, **params)
        input = target
    return steps


def _forwards(item: slice, size: int) -> tuple[int, int, int]:
    """Start, end and step of the same positions walked forwards; sizes are left open where the slice leaves them open."""
    if (item.step or 1) > 0:
        return item.start or 0, TO_THE_END if item.stop is None else item.stop, item.step or 1
    if item.start is None and item.stop is None and item.step == -1:
        return 0, TO_THE_END, 1
    positions = range(*item.indices(size))
    return (positions[-1], positions[0] + 1, -positions.step) if positions else (0, 0, 1)


def _slicing(rows: Sequence[tuple[int, int, int, int, int]]) -> Operator:
    if len(rows) == 1:
        dim, start, end, step, select = rows[0]
        if select == TO_THE_END:
            return "Tensor.slice", {"dim": dim, "start": start, "end": end, "step": step}
        return "Tensor.select", {"dim": dim, "index": select}
    keys = ("dims", "starts", "ends", "steps", "selects")
    return "Tensor.slice", dict(zip(keys, zip(*rows, strict=True), strict=True))


# ------------------------------------------------------------------------------------------- the table

VIEWS: dict[str, View] = {
    "view": reshaped,
    "expand": _expanded,
    "squeeze": _squeezed,
    "unsqueeze": lambda input, output, dim: _operator("torch.unsqueeze", input, output, dim=dim),
    "transpose": lambda input, output, a, b: _operator("torch.transpose", input, output, dim0=a, dim1=b),
    "permute": lambda input, output, dims: _operator("Tensor.permute", input, output, dims=tuple(dims)),
    "flip": lambda input, output, dims: _operator("torch.flip", input, output, dims=tuple(dims)),
    "select": lambda input, output, dim, index: _operator("Tensor.select", input, output, dim=dim, index=index),
    "narrow": _narrowed,
    "slice": _sliced,
    "index": indexed,
}


def view_steps(name: str, input: Value, output: Value, arguments: tuple[Any, ...]) -> list[Step]:
    """The steps of a view; `InputError` for one that the format has no operator for."""
    if name not in VIEWS:
        raise InputError(f"the view '{name}' cannot be exported; build it from other views")
    return VIEWS[name](input, output, *arguments)
