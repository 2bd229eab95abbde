"""Tensors of random numbers. The same seed gives the same numbers; they are not those of PyTorch."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ..dtypes import Array, DType, bf16, f16, f32, i64, narrow, to_real
from ..errors import DTypeError, InputError
from ..layers import creation as random_operators
from ..memory.shape import Shape
from .casting import DTypeLike, as_dtype, is_real
from .creation import size_of
from .tensor import Tensor


class Generator(np.random.Generator):
    """A source of random numbers with a seed; any other NumPy generator will do where one of these is asked for."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(np.random.PCG64(checked_seed(seed)))
        self._seed = seed

    def manual_seed(self, seed: int) -> Generator:
        """Begins anew, with another seed."""
        self.bit_generator.state = np.random.PCG64(checked_seed(seed)).state
        self._seed = seed
        return self

    def initial_seed(self) -> int:
        """The seed that was set last."""
        return self._seed

    def get_state(self) -> Any:
        """Where the generator stands: for `set_state`."""
        return self.bit_generator.state

    def set_state(self, state: Any) -> Generator:
        """Goes on from where `get_state` was called."""
        self.bit_generator.state = state
        return self

    def __reduce__(self) -> Any:
        return _restore, (self._seed, self.get_state())


def _restore(seed: int, state: Any) -> Generator:
    return Generator(seed).set_state(state)


def checked_seed(seed: int) -> int:
    """A seed as it is; `InputError` for what is none."""
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"a seed is an integer of at least 0, found {seed!r}")
    return int(seed)


_default = Generator(0)
_lock = threading.Lock()


def default_generator() -> Generator:
    """The generator of everything that is not given another one."""
    return _default


def manual_seed(seed: int) -> Generator:
    """Sets the seed of the default generator, and of the random operators of models."""
    with _lock:
        random_operators.manual_seed(checked_seed(seed))
        return _default.manual_seed(seed)


def initial_seed() -> int:
    """The seed of the default generator that was set last."""
    return _default.initial_seed()


# ------------------------------------------------------------------------------------------- tensors


def rand(
    *size: Any, dtype: DTypeLike = f32, generator: np.random.Generator | None = None, requires_grad: bool = False
) -> Tensor:
    """Uniform numbers from [0, 1)."""
    return _drawn(_uniform, size_of(size), dtype, generator, requires_grad)


def randn(
    *size: Any, dtype: DTypeLike = f32, generator: np.random.Generator | None = None, requires_grad: bool = False
) -> Tensor:
    """Numbers of a normal distribution with mean 0 and variance 1; the parts of complex numbers have variance 1/2."""
    return _drawn(_normal, size_of(size), dtype, generator, requires_grad)


def normal(
    mean: float, std: float, size: Any, dtype: DTypeLike = f32, generator: np.random.Generator | None = None
) -> Tensor:
    """Numbers of a normal distribution with this mean and standard deviation."""
    if not is_real(mean) or not is_real(std) or not std >= 0:
        raise InputError(f"normal: expected a mean and a standard deviation of at least 0, found {mean!r} and {std!r}")
    return _drawn(lambda *drawing: _normal(*drawing) * std + mean, size_of((size,)), dtype, generator, False)


def randint(
    *bounds: Any,
    size: Any = None,
    dtype: DTypeLike = i64,
    generator: np.random.Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform integers from [low, high): `randint(high, size)` or `randint(low, high, size)`, the size being a tuple."""
    if size is None and bounds and isinstance(bounds[-1], (tuple, list)):
        *bounds, size = bounds  # type: ignore[assignment]
    if len(bounds) not in (1, 2) or size is None:
        raise InputError(
            f"randint: expected high, or low and high, and then a shape such as (2, 3), found {tuple(bounds)}"
        )
    low, high = (0, *bounds) if len(bounds) == 1 else bounds
    if not all(isinstance(bound, (int, np.integer)) for bound in (low, high)):
        raise InputError(f"randint: expected integers, found low={low!r} and high={high!r}")
    if low >= high:
        raise InputError(f"randint: expected low < high, found low={low} and high={high}")
    target, shape = as_dtype(dtype), size_of((size,))
    made = Tensor.empty_contiguous(shape, target)
    numbers = (generator or _default).integers(low, high, shape)
    if target.kind == "int" and not (np.iinfo(target.storage).min <= low and high - 1 <= np.iinfo(target.storage).max):
        raise DTypeError(f"randint: numbers from {low} up to {high - 1} do not fit {target}")
    made.array[...] = narrow(numbers, target)
    made.requires_grad = requires_grad
    return made


def randperm(n: int, dtype: DTypeLike = i64, generator: np.random.Generator | None = None) -> Tensor:
    """The numbers 0 to n - 1 in random order."""
    if not isinstance(n, (int, np.integer)) or n < 0:
        raise InputError(f"randperm: expected a count of at least 0, found {n!r}")
    return Tensor((generator or _default).permutation(n), dtype)


def rand_like(
    input: Tensor,
    dtype: DTypeLike | None = None,
    generator: np.random.Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform numbers from [0, 1), in the shape and dtype of a tensor."""
    return _drawn(_uniform, input.shape, dtype or input.dtype, generator, requires_grad)


def randn_like(
    input: Tensor,
    dtype: DTypeLike | None = None,
    generator: np.random.Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers of a normal distribution, in the shape and dtype of a tensor."""
    return _drawn(_normal, input.shape, dtype or input.dtype, generator, requires_grad)


# ------------------------------------------------------------------------------------------- drawing

_MANTISSA_BITS = {f16: 11, bf16: 8}


def _drawn(
    draw: Any, shape: Shape, dtype: DTypeLike, generator: np.random.Generator | None, requires_grad: bool
) -> Tensor:
    target = as_dtype(dtype)
    if target.kind not in ("float", "complex"):
        raise DTypeError(f"random numbers are floats or complex numbers, found {target}; use randint() for integers")
    made = Tensor.empty_contiguous(shape, target)
    made.array[...] = narrow(draw(generator or _default, shape, target), target)
    made.requires_grad = requires_grad
    return made


def _uniform(generator: np.random.Generator, shape: Shape, dtype: DType) -> Array:
    if dtype.kind == "complex":
        return _complex(_uniform, generator, shape, dtype)
    if dtype in _MANTISSA_BITS:  # rounding must not give 1
        steps = 1 << _MANTISSA_BITS[dtype]
        return np.asarray(generator.integers(0, steps, shape) / steps, np.float32)
    return np.asarray(generator.random(shape, dtype=dtype.compute.type))


def _normal(generator: np.random.Generator, shape: Shape, dtype: DType) -> Array:
    if dtype.kind == "complex":
        return _complex(_normal, generator, shape, dtype) * dtype.compute.type(0.5**0.5)
    return np.asarray(generator.standard_normal(shape, dtype=dtype.compute.type))


def _complex(draw: Any, generator: np.random.Generator, shape: Shape, dtype: DType) -> Array:
    numbers = np.empty(shape, dtype.compute)
    numbers.real = draw(generator, shape, to_real(dtype))
    numbers.imag = draw(generator, shape, to_real(dtype))
    return numbers
