"""A PNNX graph run by PyTorch itself: every operator is looked up under its name. What the tests hold exports against."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from kuiperinfer import expression, pnnx

_OWN_NAMES: dict[str, Callable[..., Any]] = {
    "size": lambda tensor, dim: tensor.shape[dim],
    "floor_divide": operator.floordiv,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "max": torch.maximum,
    "min": torch.minimum,
}


def run_in_torch(model: Path | str, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    """The outputs of a model file for the inputs, calculated by PyTorch's modules and functions."""
    graph = pnnx.read(model)
    values: dict[str, Any] = {}
    waiting = iter(inputs)
    for op in graph.operators:
        arguments = [values[operand.name] for operand in op.inputs]
        if op.type == "pnnx.Input":
            results: Any = torch.from_numpy(np.array(next(waiting)))
        elif op.type == "pnnx.Output":
            return tuple(leaf.numpy() for leaf in leaves(arguments[0]))
        else:
            with torch.no_grad():
                results = run(op, arguments)
        several = results if len(op.outputs) > 1 else (results,)
        for operand, result in zip(op.outputs, several, strict=True):
            values[operand.name] = result
            if operand.shape is not None:
                assert len(operand.shape) == result.ndim
                assert all(dim in (None, size) for dim, size in zip(operand.shape, result.shape, strict=True)), op
                assert str(result.dtype) == operand.dtype.torch_name
    raise AssertionError("no pnnx.Output")


def leaves(value: Any) -> list[torch.Tensor]:
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple) else [value]


def run(op: pnnx.Operator, arguments: list[Any]) -> Any:
    params = {key: python_value(key, parameter.value) for key, parameter in op.params.items()}
    weights = {key: torch.from_numpy(np.array(weight.data)) for key, weight in op.attributes.items()}
    room, _, name = op.type.rpartition(".")
    if op.type == "pnnx.Attribute":
        return weights["data"]
    if op.type == "pnnx.Expression":
        return evaluate(expression.parse(op.params["expr"].text), arguments)
    if op.type == "prim::TupleConstruct":
        return tuple(arguments)
    if room == "nn":
        module = getattr(torch.nn, name)(**params).eval()
        missing, unexpected = module.load_state_dict(weights, strict=False)
        assert not unexpected
        assert [key for key in missing if key != "num_batches_tracked"] == []
        return module(*arguments)
    if name in ("cat", "stack"):
        return getattr(torch, name)(arguments, **params)
    names = list(op.input_names) or [None] * len(arguments)
    positional = [value for key, value in zip(names, arguments, strict=True) if key in (None, "input", "self")]
    named = {key: value for key, value in zip(names, arguments, strict=True) if key not in (None, "input", "self")}
    if op.type == "Tensor.slice":
        return slices(positional[0], **params)
    if op.type == "Tensor.index":
        return positional[0][tuple(slice(None) if item is None else item for item in named["expr"])]
    if op.type == "torch.where":
        options = {**named, **params}
        return torch.where(
            options["condition"], *positional, *(options[key] for key in ("input", "other") if key in options)
        )
    if op.type == "Tensor.expand":
        return positional[0].expand(params["sizes"])
    if room == "Tensor":
        return getattr(torch.Tensor, name)(*positional, **named, **params)
    return getattr({"F": F, "torch": torch}[room], name)(*positional, **named, **params)


def python_value(key: str, value: Any) -> Any:
    if isinstance(value, str) and value.startswith("torch."):
        return getattr(torch, value.removeprefix("torch."))
    return tuple(size or None for size in value) if key == "output_size" else value


def slices(tensor: torch.Tensor, **params: Any) -> torch.Tensor:
    if "dim" in params:
        index: list[Any] = [slice(None)] * tensor.ndim
        index[params["dim"]] = slice(params["start"], params["end"], params["step"])
        return tensor[tuple(index)]
    index = [slice(None)] * tensor.ndim
    rows = zip(*(params[key] for key in ("dims", "starts", "ends", "steps", "selects")), strict=True)
    for dim, start, end, step, select in rows:
        index[dim] = slice(start, end, step) if select == 2**31 - 1 else select
    return tensor[tuple(index)]


def evaluate(tree: expression.Expression, arguments: Sequence[Any]) -> Any:
    if isinstance(tree, expression.Operand):
        return arguments[tree.index]
    if isinstance(tree, expression.Literal):
        return tree.value
    if isinstance(tree, expression.ListNode):
        return [evaluate(item, arguments) for item in tree.children]
    assert isinstance(tree, expression.Call)
    values = [evaluate(argument, arguments) for argument in tree.arguments]
    function = _OWN_NAMES.get(tree.function) or getattr(operator, tree.function, None) or getattr(torch, tree.function)
    if tree.function in ("div", "neg"):
        function = operator.truediv if tree.function == "div" else operator.neg
    return function(*values)
