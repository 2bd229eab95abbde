"""Activations: one function of every element.

Those that are made of sums and products alone keep integers; those that need exp and its kin turn integers into f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec, dtype_of, to_float
from ..errors import DTypeError, InputError, ShapeError
from ..expression.erf import erf
from .base import Layer, normalize_dim, register
from .checks import expect_kind, factor_dtype


@dataclass(frozen=True, kw_only=True)
class Activation(Layer):
    """Base of the family. (*) -> (*), dtype kept; `kinds` are the dtypes that PyTorch takes."""

    kinds: ClassVar[tuple[str, ...]] = ("float",)
    ignored = frozenset({"inplace"})

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_kind(input, *self.kinds)
        return input.like()


class IntegerActivation(Activation):
    """Base of those that keep integers. (*) -> (*)"""

    kinds = ("int", "float")


class Transcendental(Activation):
    """Base of those that turn integers into f32 and take complex numbers. (*) -> (*)"""

    kinds: ClassVar[tuple[str, ...]] = ("int", "float", "c64", "c128")

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_kind(input, *self.kinds)
        return input.like(dtype=to_float(input.dtype))


def as_floating(array: Array) -> Array:
    """Integers and bool as float32, others as they are."""
    return array.astype(np.float32) if array.dtype.kind in "biu" else array


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow for real x of either sign."""
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, decay) / (1 + decay)


# ------------------------------------------------------------------------------------------- rectifiers


@register("nn.ReLU", "F.relu")
class ReLU(IntegerActivation):
    """max(x, 0); NaN stays NaN. torch.nn.ReLU"""

    def forward(self, input: Array) -> Array:
        return np.maximum(input, input.dtype.type(0))


@register("nn.ReLU6", "F.relu6")
class ReLU6(IntegerActivation):
    """min(max(x, 0), 6); NaN stays NaN. torch.nn.ReLU6"""

    def forward(self, input: Array) -> Array:
        return np.clip(input, input.dtype.type(0), input.dtype.type(6))


@register("nn.LeakyReLU", "F.leaky_relu")
@dataclass(frozen=True, kw_only=True)
class LeakyReLU(Activation):
    """x where x > 0, else negative_slope * x. torch.nn.LeakyReLU"""

    negative_slope: float = 0.01

    def forward(self, input: Array) -> Array:
        return np.where(input > 0, input, input * self.negative_slope)


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

    def forward(self, input: Array) -> Array:
        return np.where(input > 0, input, input * ((self.lower + self.upper) / 2))


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
        return np.where(input > 0, input, input * slope)


@register("nn.Threshold", "F.threshold")
@dataclass(frozen=True, kw_only=True)
class Threshold(IntegerActivation):
    """x where x > threshold, else value; NaN stays NaN. torch.nn.Threshold"""

    threshold: float
    value: float

    def forward(self, input: Array) -> Array:
        threshold, value = (number_as(number, input.dtype) for number in (self.threshold, self.value))
        return np.where(input <= threshold, value, input)


@register("nn.Hardtanh", "F.hardtanh")
@dataclass(frozen=True, kw_only=True)
class Hardtanh(IntegerActivation):
    """min(max(x, min_val), max_val); NaN stays NaN. torch.nn.Hardtanh"""

    min_val: float = -1.0
    max_val: float = 1.0

    def __post_init__(self) -> None:
        if self.min_val > self.max_val:
            raise InputError(f"min_val={self.min_val} is greater than max_val={self.max_val}")

    def infer(self, input: TensorSpec) -> TensorSpec:
        if input.dtype.storage.kind == "u" and self.min_val < 0:
            raise DTypeError(f"min_val={self.min_val} is negative, but the input is unsigned: {input}")
        return super().infer(input)

    def forward(self, input: Array) -> Array:
        return np.clip(input, number_as(self.min_val, input.dtype), number_as(self.max_val, input.dtype))


def number_as(number: float, dtype: np.dtype[Any]) -> Array:
    """A parameter in an array's dtype: for integers cut to one, wrapped where unsigned; `DTypeError` if out of range."""
    if dtype.kind not in "iu":
        return np.asarray(number, dtype)
    limits = np.iinfo(dtype.name)
    lowest = -limits.max if dtype.kind == "u" else limits.min
    if not lowest <= number <= limits.max:
        raise DTypeError(f"the number {number} does not fit into elements of dtype {dtype_of(dtype)}")
    return np.asarray(int(number)).astype(dtype)


# ------------------------------------------------------------------------------------------- exponential units


def _elu(x: Array, alpha: float, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    return np.where(x > 0, x * scale, np.expm1(x * input_scale) * (alpha * scale))


@register("nn.ELU", "F.elu")
@dataclass(frozen=True, kw_only=True)
class ELU(Activation):
    """x where x > 0, else alpha * (exp(x) - 1). torch.nn.ELU"""

    alpha: float = 1.0

    def forward(self, input: Array) -> Array:
        return _elu(input, self.alpha)


@register("nn.CELU", "F.celu")
@dataclass(frozen=True, kw_only=True)
class CELU(Activation):
    """x where x > 0, else alpha * (exp(x / alpha) - 1). torch.nn.CELU"""

    alpha: float = 1.0

    def __post_init__(self) -> None:
        if self.alpha == 0:
            raise InputError("alpha=0: CELU divides by alpha")

    def forward(self, input: Array) -> Array:
        return _elu(input, self.alpha, input_scale=1 / self.alpha)


@register("nn.SELU", "F.selu")
class SELU(Activation):
    """scale * x where x > 0, else scale * alpha * (exp(x) - 1), with the paper's constants. torch.nn.SELU"""

    alpha: ClassVar[float] = 1.6732632423543772848170429916717
    scale: ClassVar[float] = 1.0507009873554804934193349852946

    def forward(self, input: Array) -> Array:
        return _elu(input, self.alpha, self.scale)


# ------------------------------------------------------------------------------------------- sigmoids


@register("nn.Sigmoid", "F.sigmoid")
class Sigmoid(Transcendental):
    """1 / (1 + exp(-x)). torch.nn.Sigmoid"""

    kinds = ("bool", *Transcendental.kinds)

    def forward(self, input: Array) -> Array:
        return sigmoid(as_floating(input))


@register("nn.Tanh", "F.tanh")
class Tanh(Transcendental):
    """tanh(x). torch.nn.Tanh"""

    kinds = ("bool", *Transcendental.kinds)

    def forward(self, input: Array) -> Array:
        return np.tanh(as_floating(input))


@register("nn.LogSigmoid", "F.logsigmoid")
class LogSigmoid(Activation):
    """log(1 / (1 + exp(-x))). torch.nn.LogSigmoid"""

    def forward(self, input: Array) -> Array:
        return np.minimum(input, 0) - np.log1p(np.exp(-np.abs(input)))


@register("nn.SiLU", "F.silu")
class SiLU(Activation):
    """x * sigmoid(x). torch.nn.SiLU"""

    kinds = ("float", "c64", "c128")

    def forward(self, input: Array) -> Array:
        return input * sigmoid(input)


@register("nn.Mish", "F.mish")
class Mish(Activation):
    """x * tanh(log(1 + exp(x))). torch.nn.Mish"""

    def forward(self, input: Array) -> Array:
        return input * np.tanh(np.logaddexp(input, input.dtype.type(0)))


@register("nn.GLU", "F.glu")
@dataclass(frozen=True, kw_only=True)
class GLU(Layer):
    """a * sigmoid(b), where a and b are the halves of x along `dim`. (*, C, *) -> (*, C / 2, *). torch.nn.GLU"""

    dim: int = -1

    def infer(self, input: TensorSpec) -> TensorSpec:
        expect_kind(input, "float")
        if input.ndim == 0:
            raise ShapeError("expected at least one dimension to halve, found a 0-d tensor")
        dim = normalize_dim(self.dim, input.ndim)
        size = input.shape[dim]
        if size % 2:
            raise ShapeError(f"dim={self.dim}: the size to be halved is odd in shape {input.shape}")
        return input.like((*input.shape[:dim], size // 2, *input.shape[dim + 1 :]))

    def forward(self, input: Array) -> Array:
        first, second = np.split(input, 2, axis=self.dim)
        return first * sigmoid(second)


# ------------------------------------------------------------------------------------------- soft and hard shapes


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@register("nn.GELU", "F.gelu")
@dataclass(frozen=True, kw_only=True)
class GELU(Activation):
    """x * Phi(x), Phi being the normal distribution function; its tanh form where approximate=tanh. torch.nn.GELU"""

    approximate: str = "none"

    forms: ClassVar[dict[str, Callable[[Array], Array]]] = {"none": _gelu, "tanh": _gelu_tanh}

    def __post_init__(self) -> None:
        if self.approximate not in self.forms:
            raise InputError(f"approximate={self.approximate}: expected one of {', '.join(self.forms)}")

    def forward(self, input: Array) -> Array:
        return self.forms[self.approximate](input)


@register("nn.Softplus", "F.softplus")
@dataclass(frozen=True, kw_only=True)
class Softplus(Activation):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x > threshold. torch.nn.Softplus"""

    beta: float = 1.0
    threshold: float = 20.0

    def forward(self, input: Array) -> Array:
        scaled = input * self.beta
        return np.where(scaled > self.threshold, input, np.log1p(np.exp(scaled)) / self.beta)


@register("nn.Softsign", "F.softsign")
class Softsign(Transcendental):
    """x / (1 + |x|). torch.nn.Softsign"""

    def forward(self, input: Array) -> Array:
        return as_floating(input) / as_floating(1 + np.abs(input))


@register("nn.Softshrink", "F.softshrink")
@dataclass(frozen=True, kw_only=True)
class Softshrink(Activation):
    """x - lambd where x > lambd, x + lambd where x < -lambd, else 0; NaN stays NaN. torch.nn.Softshrink"""

    lambd: float = 0.5

    def __post_init__(self) -> None:
        if not self.lambd >= 0:
            raise InputError(f"lambd={self.lambd}: expected a number that is not negative")

    def forward(self, input: Array) -> Array:
        return np.sign(input) * np.maximum(np.abs(input) - self.lambd, 0)


@register("nn.Hardshrink", "F.hardshrink")
@dataclass(frozen=True, kw_only=True)
class Hardshrink(Activation):
    """0 where -lambd <= x <= lambd, else x. torch.nn.Hardshrink"""

    lambd: float = 0.5

    def forward(self, input: Array) -> Array:
        return np.where((input >= -self.lambd) & (input <= self.lambd), 0, input)


@register("nn.Tanhshrink", "F.tanhshrink")
class Tanhshrink(Transcendental):
    """x - tanh(x). torch.nn.Tanhshrink"""

    def forward(self, input: Array) -> Array:
        return as_floating(input) - np.tanh(as_floating(input))


@register("nn.Hardsigmoid", "F.hardsigmoid")
class Hardsigmoid(Activation):
    """min(max(x + 3, 0), 6) / 6. torch.nn.Hardsigmoid"""

    def forward(self, input: Array) -> Array:
        return np.clip(input + 3, 0, 6) / 6


@register("nn.Hardswish", "F.hardswish")
class Hardswish(Activation):
    """x * min(max(x + 3, 0), 6) / 6. torch.nn.Hardswish"""

    def forward(self, input: Array) -> Array:
        return input * np.clip(input + 3, 0, 6) / 6
