"""Two runs with different inputs as one: what differs between them is left open.

Sizes that differ become free (`?`). A parameter that differs is written so that it follows the input, where the operator has a
way to say so (-1 of a reshape), and is an error otherwise: the module calculated it in Python from a shape or from values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...dtypes import i64
from ...errors import InputError
from .steps import EXPRESSION, Step, Value, values_in


@dataclass(eq=False)
class Run:
    """What a module did: its inputs, its steps, and the result: a value or a tuple of results."""

    inputs: list[Value]
    steps: list[Step]
    result: Any


def merge(first: Run, second: Run) -> Run:
    """The first run, with everything open in which the second differs. Raises `InputError` where they cannot be one."""
    if [step.type for step in first.steps] != [step.type for step in second.steps]:
        raise InputError(
            "the module does different things for different inputs, and only one of them could be exported"
        )
    counterparts = dict(zip(map(id, first.inputs), second.inputs, strict=True))
    steps: list[Step] = []
    open_shapes = [(value, other.shape) for value, other in zip(first.inputs, second.inputs, strict=True)]
    for step, other in zip(first.steps, second.steps, strict=True):
        for value, counterpart in zip(step.inputs, other.inputs, strict=True):
            if value.constant is not None:
                _check_constant(step, value, counterpart)
            elif counterparts.get(id(value)) is not counterpart:
                raise InputError(f"{_place(step)}: takes different tensors for different inputs of the module")
        steps += _opened(step, other)
        if str(step.tree) != str(other.tree):
            raise _depends(step, "its numbers", step.tree, other.tree)
        for value, counterpart in zip(step.outputs, other.outputs, strict=True):
            counterparts[id(value)] = counterpart
            open_shapes.append((value, counterpart.shape))
    results = zip(values_in(first.result), values_in(second.result), strict=True)
    if any(value.constant is None and counterparts.get(id(value)) is not other for value, other in results):
        raise InputError("the module gives back different tensors for different inputs")
    for value, shape in open_shapes:  # last, because parameters are merged by the shapes of the first run
        value.shape = tuple(a if a == b else None for a, b in zip(value.shape, shape, strict=True))
    return Run(first.inputs, steps, first.result)


def _place(step: Step) -> str:
    return f"'{step.name}' ({step.type})" if step.name else step.type


def _depends(step: Step, what: str, first: Any, second: Any) -> InputError:
    return InputError(
        f"{_place(step)}: {what} would have to follow the input: {first} for the first one, {second} for another; "
        "calculate with tensors all the way, or export without input_shapes2 where it depends on a size"
    )


def _check_constant(step: Step, value: Value, other: Value) -> None:
    first, second = value.constant, other.constant
    if first is second:
        return
    with_nan = value.dtype.kind == "float"
    if first is None or second is None or not np.array_equal(first, second, equal_nan=with_nan):
        raise _depends(step, "a constant", value.shape, other.shape)


# ------------------------------------------------------------------------------------------- parameters


def _opened(step: Step, other: Step) -> list[Step]:
    """The step with parameters that suit both runs, after a step that calculates them where that is needed."""
    differing = [key for key, value in step.params.items() if other.params.get(key) != value]
    for key in differing:
        first, second = step.params[key], other.params.get(key)
        rule = _RULES.get((step.type, key))
        steps = rule(step, other) if rule else None
        if steps is None:
            raise _depends(step, f"the parameter '{key}'", first, second)
        return steps
    return [step]


def _reshaped(step: Step, other: Step) -> list[Step] | None:
    """One size that differs is -1; where several do, all but one are found among the input's sizes."""
    outputs = list(zip(step.outputs[0].shape, other.outputs[0].shape, strict=True))
    inputs = list(zip(step.inputs[0].shape, other.inputs[0].shape, strict=True))
    free = [dim for dim, (a, b) in enumerate(outputs) if a != b]
    known = [dim for dim in free if outputs[dim] in inputs]
    rest = [dim for dim in free if dim not in known] or free[-1:]
    if len(rest) > 1:
        return None
    sizes: list[Any] = [-1 if dim in rest else outputs[dim][0] for dim in range(len(outputs))]
    if len(free) == 1:
        step.params["shape"] = tuple(sizes)
        return [step]
    for dim in set(known) - set(rest):
        at = dim if dim < len(inputs) and inputs[dim] == outputs[dim] else inputs.index(outputs[dim])
        sizes[dim] = f"size(@0,{at})"
    shape = Value((), i64)
    del step.params["shape"]
    calculated = Step(EXPRESSION, step.inputs, [shape], {"expr": f"[{','.join(map(str, sizes))}]"})
    step.inputs, step.input_names = [*step.inputs, shape], ["input", "shape"]
    return [calculated, step]


def _expanded(step: Step, other: Step) -> list[Step] | None:
    """A size that differs is -1, which keeps the input's, where it is that."""
    first, second = step.params["sizes"], other.params["sizes"]
    new = len(first) - len(step.inputs[0].shape)
    merged = []
    for dim, (a, b) in enumerate(zip(first, second, strict=True)):
        kept = dim >= new and (a, b) == (step.inputs[0].shape[dim - new], other.inputs[0].shape[dim - new])
        if a != b and not kept:
            return None
        merged.append(a if a == b else -1)
    step.params["sizes"] = tuple(merged)
    return [step]


_RULES: dict[tuple[str, str], Callable[[Step, Step], list[Step] | None]] = {
    ("Tensor.reshape", "shape"): _reshaped,
    ("Tensor.expand", "sizes"): _expanded,
}
