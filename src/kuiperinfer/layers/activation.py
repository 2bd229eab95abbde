"""Activations: one function of every element, by its row in the tables of `expression`.

Those that are made of sums and products alone keep integers; those that need exp and its kin turn integers into f32.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..dtypes import Array, TensorSpec, dtype_of, to_float
from ..errors import DTypeError, InputError, ShapeError
from ..expression import ALL_FUNCTIONS
from ..expression.activations import sigmoid
from ..records import dataclass
from .base import Layer, normalize_dim, register
from .checks import expect_dimensions, expect_kind, factor_dtype

Formula: TypeAlias = "tuple[str, tuple[float, ...]]"


@dataclass(frozen=True, kw_only=True)
class Activation(Layer):
    """Base of the family. (*) -> (*), dtype kept; `kinds` are the dtypes that PyTorch takes.

    `function` is a row of the tables of `expression`, `parameters` are the fields that it takes after the input.
    """

    kinds: ClassVar[tuple[str, ...]] = ("float",)
    ignored = frozenset({"inplace"})
    function: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()

    def formula(self) -> Formula:
        """The function of `expression.ALL_FUNCTIONS` that this is, and the arguments that it takes after the input."""
        return self.function, tuple(getattr(self, name) for name in self.parameters)

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_kind(input, *self.kinds)
        return input.like()

    def forward(self, input: Array) -> Array:
        name, numbers = self.formula()
        return calculate(name, input, *(number_as(number, input.dtype) for number in numbers))


class IntegerActivation(Activation):
    """Base of those that keep integers. (*) -> (*)"""

    kinds = ("int", "float")


class Transcendental(Activation):
    """Base of those that turn integers into f32 and take complex numbers. (*) -> (*)"""

    kinds: ClassVar[tuple[str, ...]] = ("int", "float", "c64", "c128")

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_kind(input, *self.kinds)
        return input.like(dtype=to_float(input.dtype))

    def forward(self, input: Array) -> Array:
        return super().forward(as_floating(input))


def calculate(name: str, *arguments: Array) -> Array:
    """A function of `expression.ALL_FUNCTIONS`, of arrays of one dtype."""
    numpy = ALL_FUNCTIONS[name].numpy
    assert numpy is not None
    return np.asarray(numpy(*arguments))


def as_floating(array: Array) -> Array:
    """Integers and bool as float32, others as they are."""
    return array.astype(np.float32) if array.dtype.kind in "biu" else array


def number_as(number: float, dtype: np.dtype[Any]) -> Array:
    """A parameter in an array's dtype: for integers cut to one, wrapped where unsigned; `DTypeError` if out of range."""
    if dtype.kind not in "iu":
        return np.asarray(number, dtype)
    limits = np.iinfo(dtype.name)
    lowest = -limits.max if dtype.kind == "u" else limits.min
    if not lowest <= number <= limits.max:
        raise DTypeError(f"the number {number} does not fit into elements of dtype {dtype_of(dtype)}")
    return np.asarray(int(number)).astype(dtype)


# ------------------------------------------------------------------------------------------- rectifiers


@register("nn.ReLU", "F.relu")
class ReLU(IntegerActivation):
    """max(x, 0); NaN stays NaN. torch.nn.ReLU"""

    function = "relu"


@register("nn.ReLU6", "F.relu6")
class ReLU6(IntegerActivation):
    """min(max(x, 0), 6); NaN stays NaN. torch.nn.ReLU6"""

    function = "relu6"


@register("nn.LeakyReLU", "F.leaky_relu")
@dataclass(frozen=True, kw_only=True)
class LeakyReLU(Activation):
    """x where x > 0, else negative_slope * x. torch.nn.LeakyReLU"""

    negative_slope: float = 0.01

    function = "leaky_relu"
    parameters = ("negative_slope",)


@register("nn.RReLU", "F.rrelu")
@dataclass(frozen=True, kw_only=True)
class RReLU(Activation):
    """x where x > 0, else (lower + upper) / 2 * x: at inference the random slope is its mean. torch.nn.RReLU"""

    lower: float = 1 / 8
    upper: float = 1 / 3
    training: bool = False

    def __post_init__(self) -> None:
        if self.training:
            raise InputError("training=True: random slopes are not supported; convert the model in eval mode")
        if not self.lower <= self.upper:
            raise InputError(f"lower={self.lower} is not below upper={self.upper}")

    def formula(self) -> Formula:
        return "leaky_relu", ((self.lower + self.upper) / 2,)


@register("nn.PReLU", "F.prelu")
@dataclass(frozen=True, kw_only=True)
class PReLU(Layer):
    """x where x > 0, else weight * x. input (N, C, *), weight () or (1) or (C) -> (N, C, *). torch.nn.PReLU"""

    num_parameters: int | None = None

    def infer(self, input: TensorSpec, weight: TensorSpec) -> TensorSpec:
        expect_kind(input, "float")
        expect_kind(weight, "float", what="weight")
        if weight.ndim > 1:
            raise ShapeError(f"weight: expected one dimension at most, found shape {weight.shape}")
        if self.num_parameters not in (None, weight.size):
            raise ShapeError(f"num_parameters={self.num_parameters}, but weight has {weight.size} elements")
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.size != 1 and weight.size != channels:
            raise ShapeError(f"weight has {weight.size} elements, expected 1 or {channels}, the channels of {input}")
        return input.like(dtype=factor_dtype(input, weight))

    def forward(self, input: Array, weight: Array) -> Array:
        slope = weight.reshape(()) if weight.size == 1 else weight.reshape(-1, *[1] * (input.ndim - 2))
        return calculate("leaky_relu", input, slope)


@register("nn.Threshold", "F.threshold")
@dataclass(frozen=True, kw_only=True)
class Threshold(IntegerActivation):
    """x where x > threshold, else value; NaN stays NaN. torch.nn.Threshold"""

    threshold: float
    value: float

    function = "threshold"
    parameters = ("threshold", "value")


@register("nn.Hardtanh", "F.hardtanh")
@dataclass(frozen=True, kw_only=True)
class Hardtanh(IntegerActivation):
    """min(max(x, min_val), max_val); NaN stays NaN. torch.nn.Hardtanh"""

    min_val: float = -1.0
    max_val: float = 1.0

    function = "clamp"
    parameters = ("min_val", "max_val")

    def __post_init__(self) -> None:
        if self.min_val > self.max_val:
            raise InputError(f"min_val={self.min_val} is greater than max_val={self.max_val}")

    def infer(self, input: TensorSpec) -> TensorSpec:
        if input.dtype.storage.kind == "u" and self.min_val < 0:
            raise DTypeError(f"min_val={self.min_val} is negative, but the input is unsigned: {input}")
        return super().infer(input)


# ------------------------------------------------------------------------------------------- exponential units


@register("nn.ELU", "F.elu")
@dataclass(frozen=True, kw_only=True)
class ELU(Activation):
    """x where x > 0, else alpha * (exp(x) - 1). torch.nn.ELU"""

    alpha: float = 1.0

    function = "elu"
    parameters = ("alpha",)


@register("nn.CELU", "F.celu")
@dataclass(frozen=True, kw_only=True)
class CELU(Activation):
    """x where x > 0, else alpha * (exp(x / alpha) - 1). torch.nn.CELU"""

    alpha: float = 1.0

    function = "celu"
    parameters = ("alpha",)

    def __post_init__(self) -> None:
        if self.alpha == 0:
            raise InputError("alpha=0: CELU divides by alpha")


@register("nn.SELU", "F.selu")
class SELU(Activation):
    """scale * x where x > 0, else scale * alpha * (exp(x) - 1), with the paper's constants. torch.nn.SELU"""

    function = "selu"


# ------------------------------------------------------------------------------------------- sigmoids


@register("nn.Sigmoid", "F.sigmoid")
class Sigmoid(Transcendental):
    """1 / (1 + exp(-x)). torch.nn.Sigmoid"""

    kinds = ("bool", *Transcendental.kinds)
    function = "sigmoid"


@register("nn.Tanh", "F.tanh")
class Tanh(Transcendental):
    """tanh(x). torch.nn.Tanh"""

    kinds = ("bool", *Transcendental.kinds)
    function = "tanh"


@register("nn.LogSigmoid", "F.logsigmoid")
class LogSigmoid(Activation):
    """log(1 / (1 + exp(-x))). torch.nn.LogSigmoid"""

    function = "logsigmoid"


@register("nn.SiLU", "F.silu")
class SiLU(Activation):
    """x * sigmoid(x). torch.nn.SiLU"""

    kinds = ("float", "c64", "c128")
    function = "silu"


@register("nn.Mish", "F.mish")
class Mish(Activation):
    """x * tanh(log(1 + exp(x))). torch.nn.Mish"""

    function = "mish"


@register("nn.GLU", "F.glu")
@dataclass(frozen=True, kw_only=True)
class GLU(Layer):
    """a * sigmoid(b), where a and b are the halves of x along `dim`. (*, C, *) -> (*, C / 2, *). torch.nn.GLU"""

    dim: int = -1

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_kind(input, "float")
        expect_dimensions(input.shape, 1)
        dim = normalize_dim(self.dim, input.ndim)
        size = input.shape[dim]
        if size % 2:
            raise ShapeError(f"dim={self.dim}: the size to be halved is odd in shape {input.shape}")
        return input.like((*input.shape[:dim], size // 2, *input.shape[dim + 1 :]))

    def forward(self, input: Array) -> Array:
        first, second = np.split(input, 2, axis=self.dim)
        return first * sigmoid(second)


# ------------------------------------------------------------------------------------------- soft and hard shapes


@register("nn.GELU", "F.gelu")
@dataclass(frozen=True, kw_only=True)
class GELU(Activation):
    """x * Phi(x), Phi being the normal distribution function; its tanh form where approximate=tanh. torch.nn.GELU"""

    approximate: str = "none"

    functions: ClassVar[dict[str, str]] = {"none": "gelu", "tanh": "gelu_tanh"}

    def __post_init__(self) -> None:
        if self.approximate not in self.functions:
            raise InputError(f"approximate={self.approximate}: expected one of {', '.join(self.functions)}")

    def formula(self) -> Formula:
        return self.functions[self.approximate], ()


@register("nn.Softplus", "F.softplus")
@dataclass(frozen=True, kw_only=True)
class Softplus(Activation):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x > threshold. torch.nn.Softplus"""

    beta: float = 1.0
    threshold: float = 20.0

    function = "softplus"
    parameters = ("beta", "threshold")


@register("nn.Softsign", "F.softsign")
class Softsign(Transcendental):
    """x / (1 + |x|). torch.nn.Softsign"""

    function = "softsign"

    def forward(self, input: Array) -> Array:
        return Activation.forward(self, input)  # integers wrap around before they are divided, as in PyTorch


@register("nn.Softshrink", "F.softshrink")
@dataclass(frozen=True, kw_only=True)
class Softshrink(Activation):
    """x - lambd where x > lambd, x + lambd where x < -lambd, else 0; NaN stays NaN. torch.nn.Softshrink"""

    lambd: float = 0.5

    function = "softshrink"
    parameters = ("lambd",)

    def __post_init__(self) -> None:
        if not self.lambd >= 0:
            raise InputError(f"lambd={self.lambd}: expected a number that is not negative")


@register("nn.Hardshrink", "F.hardshrink")
@dataclass(frozen=True, kw_only=True)
class Hardshrink(Activation):
    """0 where -lambd <= x <= lambd, else x. torch.nn.Hardshrink"""

    lambd: float = 0.5

    function = "hardshrink"
    parameters = ("lambd",)


@register("nn.Tanhshrink", "F.tanhshrink")
class Tanhshrink(Transcendental):
    """x - tanh(x). torch.nn.Tanhshrink"""

    function = "tanhshrink"


@register("nn.Hardsigmoid", "F.hardsigmoid")
class Hardsigmoid(Activation):
    """min(max(x + 3, 0), 6) / 6. torch.nn.Hardsigmoid"""

    function = "hardsigmoid"


@register("nn.Hardswish", "F.hardswish")
class Hardswish(Activation):
    """x * min(max(x + 3, 0), 6) / 6. torch.nn.Hardswish"""

    function = "hardswish"
