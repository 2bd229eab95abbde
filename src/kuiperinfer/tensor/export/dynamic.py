"""Two runs with different inputs as one: what differs between them is left open.

Sizes that differ become free (`?`). A parameter that differs is written so that it follows the input, where the operator has a
way to say so (-1 of a reshape), and is an error otherwise: the module calculated it in Python from a shape or from values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...dtypes import Array, i64
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
    steps: list[Step] = []
    pairs = _Pairs()
    pairs.add("an input", first.inputs, second.inputs)
    for step, other in zip(first.steps, second.steps, strict=True):
        pairs.check(_place(step), step.inputs, other.inputs)
        steps += _opened(step, other)
        if str(step.tree) != str(other.tree):
            raise _depends(_place(step), "its numbers", step.tree, other.tree)
        pairs.add(_place(step), step.outputs, other.outputs)
    pairs.check("the result", list(values_in(first.result)), list(values_in(second.result)))
    pairs.open_shapes()  # last, because parameters are merged by the shapes of the runs
    return Run(first.inputs, steps, first.result)


class _Pairs:
    """Values of the first run and what they are in the second."""

    def __init__(self) -> None:
        self.pairs: dict[int, tuple[Value, Value]] = {}

    def add(self, place: str, values: list[Value], others: list[Value]) -> None:
        for value, other in zip(values, others, strict=True):
            if len(value.shape) != len(other.shape) or value.dtype is not other.dtype:
                raise _depends(place, "the dimensions or the dtype of what it gives", value.shape, other.shape)
            self.pairs[id(value)] = value, other

    def check(self, place: str, values: list[Value], others: list[Value]) -> None:
        """`InputError` unless the values that are used are the same ones in both runs, or equal constants."""
        if len(values) != len(others):
            raise _depends(place, "the number of tensors", len(values), len(others))
        for value, other in zip(values, others, strict=True):
            if value.constant is not None and other.constant is not None:
                if not _equal(value.constant, other.constant):
                    raise _depends(place, "a constant", value.constant, other.constant)
            elif self.pairs.get(id(value), (value, None))[1] is not other:
                raise InputError(f"{place}: other tensors are used for other inputs of the module")

    def open_shapes(self) -> None:
        """Sizes that differ become None."""
        for value, other in self.pairs.values():
            value.shape = tuple(a if a == b else None for a, b in zip(value.shape, other.shape, strict=True))


def _place(step: Step) -> str:
    return f"'{step.name}' ({step.type})" if step.name else step.type


def _depends(place: str, what: str, first: Any, second: Any) -> InputError:
    found = f"{_shortened(first)} for the first one, {_shortened(second)} for another"
    return InputError(
        f"{place}: {what} would have to follow the input: {found}; calculate with tensors all the way, or export without "
        "input_shapes2 where it depends on a size"
    )


def _shortened(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _equal(first: Array, second: Array) -> bool:
    return first.tobytes() == second.tobytes() and first.shape == second.shape


# ------------------------------------------------------------------------------------------- parameters


def _opened(step: Step, other: Step) -> list[Step]:
    """The step with parameters that suit both runs, after a step that calculates them where that is needed."""
    differing = [key for key, value in step.params.items() if other.params.get(key) != value]
    for key in differing:
        first, second = step.params[key], other.params.get(key)
        rule = _RULES.get((step.type, key))
        steps = rule(step, other) if rule else None
        if steps is None:
            raise _depends(_place(step), f"the parameter '{key}'", first, second)
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
