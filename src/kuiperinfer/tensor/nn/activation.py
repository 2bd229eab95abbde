"""Element-wise functions and softmax, as modules."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import functional as F
from ..tensor import Tensor
from .module import Module


class _Elementwise(Module):
    """A function without parameters."""

    function: ClassVar[Any]

    def __init__(self) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = self.function(input)
        return result


class _WithInplace(_Elementwise):
    """A function that PyTorch can also write into its input; here `inplace` is accepted, and the input stays as it is."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()


class ReLU(_WithInplace):
    """max(x, 0). (*) -> (*)"""

    function = staticmethod(F.relu)


class ReLU6(_WithInplace):
    """min(max(x, 0), 6). (*) -> (*)"""

    function = staticmethod(F.relu6)


class Sigmoid(_Elementwise):
    """1 / (1 + e^-x). (*) -> (*)"""

    function = staticmethod(F.sigmoid)


class Tanh(_Elementwise):
    """tanh x. (*) -> (*)"""

    function = staticmethod(F.tanh)


class SiLU(_WithInplace):
    """x sigmoid(x). (*) -> (*)"""

    function = staticmethod(F.silu)


class Hardswish(_WithInplace):
    """x min(max(x + 3, 0), 6) / 6. (*) -> (*)"""

    function = staticmethod(F.hardswish)


class Hardsigmoid(_WithInplace):
    """min(max(x + 3, 0), 6) / 6. (*) -> (*)"""

    function = staticmethod(F.hardsigmoid)


class LeakyReLU(Module):
    """x where x >= 0, else negative_slope * x. (*) -> (*)"""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """x where x > 0, else alpha (e^x - 1). (*) -> (*)"""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class GELU(Module):
    """x times the probability that a standard normal variable is below x. (*) -> (*)

    `approximate="tanh"` takes 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))) instead.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + e^(beta x)) / beta, and x itself where beta x > threshold. (*) -> (*)"""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Softmax(Module):
    """e^x / the sum of e^x along `dim`. (*) -> (*)"""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, dim=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of softmax along `dim`. (*) -> (*)"""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, dim=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
