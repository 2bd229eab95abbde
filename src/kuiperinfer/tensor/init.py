"""First weights. Every function fills a tensor in place, without a trace for autograd, and returns it.

Numbers come from the generator of `manual_seed`, or from a NumPy `generator` of one's own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import narrow
from ..errors import InputError, ShapeError, did_you_mean
from .casting import is_real
from .random import default_generator
from .tensor import Tensor

# Nonlinearity -> the factor that keeps the variance of what passes through it; that of leaky_relu depends on its slope.
_GAINS = {"linear": 1.0, "conv2d": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}

Generator = np.random.Generator


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor for the standard deviation of weights in front of a nonlinearity; `param` is the slope of leaky_relu."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        known = [*_GAINS, "leaky_relu"]
        raise InputError(
            f"nonlinearity '{nonlinearity}'; expected one of {', '.join(known)}{did_you_mean(nonlinearity, known)}"
        )
    return _GAINS[nonlinearity]


def fans(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output has, and how many outputs an input: (out, in, *kernel) -> (fan_in, fan_out)."""
    if tensor.ndim < 2:
        raise ShapeError(
            f"inputs and outputs of a weight cannot be told from shape {tensor.shape}; expected 2 dimensions"
        )
    outputs, inputs, *kernel = tensor.shape
    return inputs * math.prod(kernel), outputs * math.prod(kernel)


def _fill(tensor: Tensor, values: Any) -> Tensor:
    tensor.writable_array()[...] = narrow(np.asarray(values), tensor.dtype)
    return tensor


def _generator(generator: Generator | None) -> Generator:
    return default_generator() if generator is None else generator


# ------------------------------------------------------------------------------------------- plain


def constant_(tensor: Tensor, value: float) -> Tensor:
    """Every element the same."""
    return _fill(tensor, value)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return _fill(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return _fill(tensor, 1)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform between a and b."""
    if not is_real(a) or not is_real(b) or not a <= b:
        raise InputError(f"uniform_: expected a <= b, found a={a!r} and b={b!r}")
    return _fill(tensor, _generator(generator).uniform(a, b, tensor.shape))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal, with this mean and this standard deviation."""
    if not is_real(mean) or not is_real(std) or not std >= 0:
        raise InputError(
            f"normal_: expected a mean, and a standard deviation of at least 0, found {std!r} with mean {mean!r}"
        )
    return _fill(tensor, _generator(generator).normal(mean, std, tensor.shape))


# ------------------------------------------------------------------------------------------- by the size of the layer


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform within ± gain √(6 / (fan_in + fan_out)). Glorot and Bengio, 2010."""
    bound = gain * math.sqrt(6 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal, with the standard deviation gain √(2 / (fan_in + fan_out)). Glorot and Bengio, 2010."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform within ± gain √(3 / fan). He et al., arXiv:1502.01852; `a` is the slope of leaky_relu."""
    bound = math.sqrt(3) * _kaiming_deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal, with the standard deviation gain / √fan. He et al., arXiv:1502.01852; `a` is the slope of leaky_relu."""
    return normal_(tensor, 0.0, _kaiming_deviation(tensor, a, mode, nonlinearity), generator)


def _kaiming_deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    modes = ("fan_in", "fan_out")
    if mode not in modes:
        raise InputError(f"mode '{mode}'; expected fan_in or fan_out{did_you_mean(mode, modes)}")
    fan = fans(tensor)[modes.index(mode)]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0
