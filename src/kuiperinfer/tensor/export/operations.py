"""Operations of tensors as operators of the format: what each is called there, and how its parameters are written."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import expression
from ...dtypes import DType
from ...errors import InputError
from ...expression import FUNCTIONS, Literal, Operand
from .steps import EXPRESSION, Step, Value
from .views import view_steps

# What gives its input as it is.
ALIASES = frozenset({"clone", "contiguous", "detach", "alias"})


@dataclass(frozen=True)
class Call:
    """An operation that was called: its inputs (values, numbers or None), its parameters, and its results."""

    name: str
    inputs: Sequence[Any]
    parameters: Mapping[str, Any]
    outputs: list[Value]


Rule = Callable[[Call], list[Step]]


def steps_of(call: Call) -> list[Step]:
    """The steps of a call; `InputError` for an operation that the format has no operator for."""
    if "arguments" in call.parameters and call.name not in _COPIES:
        return view_steps(call.name, call.inputs[0], call.outputs[0], call.parameters["arguments"])
    rule = (_COPIES if "arguments" in call.parameters else RULES).get(call.name)
    if rule is None:
        raise InputError(
            f"the operation '{call.name}' has no operator in the format, and cannot be exported; build it from others"
        )
    return rule(call)


# ------------------------------------------------------------------------------------------- kinds of rules


def _parameter(value: Any) -> Any:
    """A parameter as the format has it."""
    if isinstance(value, DType):
        return f"torch.{value.torch_names[-1]}"
    return tuple(value) if isinstance(value, (list, tuple)) else value


_SILENT_OPTIONS = ("dtype", "padding_idx")


def operator(type: str, names: str, *numbers: str, **fixed: Any) -> Rule:
    """An operator whose tensors have these `names`; `numbers` name what comes after them as numbers.

    The operation's parameters are the operator's, and `fixed` adds some. A tensor that is missing is written as None; options
    that the format mentions only where they are used are left out.
    """
    keys = names.split()

    def steps(call: Call) -> list[Step]:
        tensors = call.inputs[: len(keys)]
        given = [(key, value) for key, value in zip(keys, tensors, strict=False) if isinstance(value, Value)]
        params = {key: value for key, value in zip(keys, tensors, strict=False) if not isinstance(value, Value)}
        params |= dict(zip(numbers, call.inputs[len(keys) :], strict=True))
        params |= fixed | {
            key: _parameter(value)
            for key, value in call.parameters.items()
            if value is not None or key not in _SILENT_OPTIONS
        }
        return [Step(type, [value for _, value in given], call.outputs, params, input_names=[key for key, _ in given])]

    return steps


def _windows(type: str, names: str, ndim: int = 2, **fixed: Any) -> Rule:
    """An operator on windows, whose sizes are written for each dimension."""
    rule = operator(type, names, **fixed)

    def steps(call: Call) -> list[Step]:
        (step,) = rule(call)
        sizes = {key: value for key, value in step.params.items() if key in _SIZES and isinstance(value, tuple)}
        step.params |= {key: value * ndim if len(value) == 1 else value for key, value in sizes.items()}
        return [step]

    return steps


_SIZES = ("kernel_size", "stride", "padding", "dilation", "output_size")


def _reduction(type: str, one_dim: bool = False) -> Rule:
    """Over all dimensions the format has no `dim`, over some a list of them, or, for some operators, just one."""

    def steps(call: Call) -> list[Step]:
        params = {key: _parameter(value) for key, value in call.parameters.items() if value is not None}
        dim = params.get("dim")
        if dim is None and params.pop("keepdim", False):
            params |= {"dim": tuple(range(len(call.inputs[0].shape))), "keepdim": True}
        elif one_dim and isinstance(dim, tuple):
            (params["dim"],) = dim
        return [Step(type, list(call.inputs), call.outputs, params, input_names=["input"])]

    return steps


def _variance(call: Call) -> list[Step]:
    """The format knows a correction of 0 or 1."""
    parameters = dict(call.parameters)
    correction = parameters.pop("correction")
    if correction not in (0, 1):
        raise InputError(f"var: a correction of {correction} cannot be exported; expected 0 or 1")
    (step,) = _reduction("torch.var")(Call(call.name, call.inputs, parameters, call.outputs))
    step.params["unbiased"] = bool(correction)
    return [step]


def _extreme(name: str) -> Rule:
    """The largest or smallest of all has an operator of its own name; along dimensions it is amax or amin."""

    def steps(call: Call) -> list[Step]:
        if call.parameters.get("dim") is None and not call.parameters.get("keepdim"):
            return [Step(f"torch.{name}", list(call.inputs), call.outputs, input_names=["input"])]
        return _reduction(f"torch.a{name}")(call)

    return steps


def _arithmetic(call: Call) -> list[Step]:
    """One function of the expression language."""
    values = [value for value in call.inputs if isinstance(value, Value)]
    if call.name == "xor" and call.inputs[1] in (True, -1):  # how tensors say `~x`
        return [Step("torch.bitwise_not", values, call.outputs, input_names=["input"])]
    place = iter(range(len(values)))
    arguments = [Operand(next(place)) if isinstance(one, Value) else Literal(_number(one)) for one in call.inputs]
    return [Step(EXPRESSION, values, call.outputs, tree=expression.Call(call.name, tuple(arguments)))]


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _clamp(call: Call) -> list[Step]:
    input, low, high = call.inputs
    params = {"min": None if low == -math.inf else low, "max": None if high == math.inf else high}
    return [Step("torch.clamp", [input], call.outputs, params, input_names=["input"])]


def _to(call: Call) -> list[Step]:
    params = {"copy": False, "dtype": _parameter(call.parameters["arguments"][0])}
    return [Step("Tensor.to", list(call.inputs), call.outputs, params, input_names=["input"])]


def _join(type: str) -> Rule:
    """The inputs are one list, which has no name."""
    return lambda call: [Step(type, list(call.inputs), call.outputs, dict(call.parameters))]


def _batch_norm(call: Call) -> list[Step]:
    """The format knows it as it is at inference."""
    if call.parameters["training"]:
        raise InputError("batch_norm with the statistics of the batch cannot be exported; pass the running ones")
    known = Call(call.name, call.inputs, {"eps": call.parameters["eps"]}, call.outputs)
    return operator("F.batch_norm", "input running_mean running_var weight bias")(known)


def _embedding(call: Call) -> list[Step]:
    """Where the gradient of a row is dropped does not matter any more."""
    params = {"scale_grad_by_freq": False, "sparse": False}
    return [Step("F.embedding", list(call.inputs), call.outputs, params, input_names=["input", "weight"])]


def _index(call: Call) -> list[Step]:
    """A list of indices, None for dimensions that are taken as a whole, and what they choose."""
    input, *indices = call.inputs
    place = iter(range(len(indices)))
    entries = [f"@{next(place)}" if isinstance(item, np.ndarray) else "None" for item in call.parameters["arguments"]]
    listed = Value((), input.dtype)
    return [
        Step(EXPRESSION, indices, [listed], {"expr": f"[{','.join(entries)}]"}),
        Step("Tensor.index", [input, listed], call.outputs, input_names=["input", "expr"]),
    ]


def _dropout(call: Call) -> list[Step]:
    raise InputError("dropout that stays active at inference cannot be exported; pass training=self.training")


# ------------------------------------------------------------------------------------------- the tables

# What has arguments as views have them, but copies.
_COPIES: dict[str, Rule] = {"to": _to, "gather": _index}

_NO_TENSORS = ("size", "int")  # functions of the language that calculate with sizes

RULES: dict[str, Rule] = {
    **{name: _arithmetic for name in FUNCTIONS if "." not in name and name not in _NO_TENSORS},
    **{name: operator(f"torch.{name}", "input other") for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{
        name: operator(f"F.{name}", "input")
        for name in ("relu", "relu6", "selu", "sigmoid", "logsigmoid", "silu", "mish", "gelu", "softsign", "tanhshrink")
    },
    "hardsigmoid": operator("F.hardsigmoid", "input"),
    "hardswish": operator("F.hardswish", "input"),
    "gelu_tanh": operator("F.gelu", "input", approximate="tanh"),
    "leaky_relu": operator("F.leaky_relu", "input", "negative_slope"),
    "elu": operator("F.elu", "input", "alpha"),
    "celu": operator("F.celu", "input", "alpha"),
    "softplus": operator("F.softplus", "input", "beta", "threshold"),
    "softshrink": operator("F.softshrink", "input", "lambd"),
    "hardshrink": operator("F.hardshrink", "input", "lambd"),
    "threshold": operator("F.threshold", "input", "threshold", "value"),
    "clamp": _clamp,
    "where": operator("torch.where", "condition input other"),
    "sum": _reduction("torch.sum"),
    "mean": _reduction("torch.mean"),
    "logsumexp": _reduction("torch.logsumexp"),
    "prod": _reduction("torch.prod", one_dim=True),
    "all": _reduction("torch.all"),
    "any": _reduction("torch.any"),
    "var": _variance,
    "amax": _extreme("max"),
    "amin": _extreme("min"),
    "max": operator("torch.max", "input"),
    "min": operator("torch.min", "input"),
    "argmax": operator("torch.argmax", "input"),
    "argmin": operator("torch.argmin", "input"),
    "matmul": operator("torch.matmul", "input other"),
    "bmm": operator("torch.bmm", "input mat2"),
    "linear": operator("F.linear", "input weight bias"),
    "conv1d": _windows("F.conv1d", "input weight bias", ndim=1),
    "conv2d": _windows("F.conv2d", "input weight bias"),
    "unfold": _windows("F.unfold", "input"),
    "fold": _windows("F.fold", "input"),
    "max_pool2d": _windows("F.max_pool2d", "input", return_indices=False),
    "avg_pool2d": _windows("F.avg_pool2d", "input"),
    "adaptive_avg_pool2d": _windows("F.adaptive_avg_pool2d", "input"),
    "softmax": operator("F.softmax", "input"),
    "log_softmax": operator("F.log_softmax", "input"),
    "batch_norm": _batch_norm,
    "layer_norm": operator("F.layer_norm", "input weight bias"),
    "dropout": _dropout,
    "embedding": _embedding,
    "pad": operator("F.pad", "input"),
    "flatten": operator("torch.flatten", "input"),
    "gather": operator("torch.gather", "input index"),
    "masked_fill": operator("Tensor.masked_fill", "input mask", "value"),
    **{
        name: operator(f"torch.{name}", "input")
        for name in ("isnan", "isinf", "isfinite", "cumsum", "sort", "argsort", "topk")
    },
    "repeat": operator("Tensor.repeat", "input"),
    "cat": _join("torch.cat"),
    "stack": _join("torch.stack"),
}
