"""Compares layers with PyTorch: one row of a family's test table is one `Case`.

The same case says how the operator is bound (type, parameters, inputs, weights) and what PyTorch does with the same arrays.
Shape, dtype and values are compared; `infer` on specs without values must agree with what `forward` gives.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from kuiperinfer import layers
from kuiperinfer.dtypes import BFLOAT16_STORAGE, TensorSpec, dtype_of, from_bits, widen
from kuiperinfer.dtypes import bf16 as BF16
from kuiperinfer.errors import KuiperError
from kuiperinfer.layers.base import DataDependent, apply, infer, map_value, spec_of
from kuiperinfer.layers.binding import Constant, FromAttribute, FromInput, bind

# Every element type that PyTorch calculates with.
ALL_DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip

# Largest difference relative to the output's largest magnitude.
TOLERANCE = {"f32": 2e-6, "c64": 2e-6, "f64": 1e-13, "c128": 1e-13, "f16": 2e-3, "bf16": 1.6e-2}


@dataclass
class Case:
    """One operator with its parameters, inputs (arrays, tensors, numbers or lists) and weights, and PyTorch's word for it.

    `torch` gets the inputs as tensors, in order. `names` are the operand keys of the file (`$key=`), one an input.
    """

    type: str
    torch: Callable[..., Any]
    inputs: Sequence[Any]
    params: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str | None] | None = None
    outputs: int = 1
    tolerance: float | None = None
    id: str = ""

    def __str__(self) -> str:
        given = " ".join(f"{k}={v}" for k, v in self.params.items())
        shapes = " ".join(str(tuple(i.shape)) if hasattr(i, "shape") else str(i) for i in self.inputs)
        return self.id or f"{self.type} {given} {shapes}"


def to_numpy(value: Any) -> Any:
    """Torch values as this package stores them: bfloat16 with its own storage dtype, tuples as lists."""
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        if value.dtype is torch.bfloat16:
            return from_bits(value.contiguous().view(torch.int16).numpy().view(np.uint16), BF16)
        return value.numpy()
    return [to_numpy(item) for item in value] if isinstance(value, (list, tuple)) else value


def to_torch(value: Any) -> Any:
    """Arrays as tensors that share nothing with them."""
    if isinstance(value, np.ndarray):
        if value.dtype == BFLOAT16_STORAGE:
            bits = np.array(value["bfloat16"], order="C").view(np.int16)
            return torch.from_numpy(bits).view(torch.bfloat16)
        return torch.from_numpy(value.copy())
    return [to_torch(item) for item in value] if isinstance(value, list) else value


def run(case: Case) -> list[Any]:
    """The outputs of our layer, one an output of the operator; inputs must come out unmodified."""
    inputs = [to_numpy(value) for value in case.inputs]
    weights = {name: to_numpy(value) for name, value in case.weights.items()}
    names = case.names if case.names is not None else [None] * len(inputs)
    binding = bind(
        case.type,
        input_names=names,
        params=case.params,
        attributes=list(weights),
        output_count=case.outputs,
        constants={i: value for i, value in enumerate(inputs) if _is_constant(value)},
    )

    def source(origin: Any) -> Any:
        if isinstance(origin, FromInput):
            return inputs[origin.index]
        return weights[origin.name] if isinstance(origin, FromAttribute) else origin.value

    arguments = [source(origin) for origin in binding.arguments]
    named = {name: source(origin) for name, origin in binding.named.items()}
    before = [
        map_value(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, v)
        for v in [*inputs, *weights.values()]
    ]
    for value in [*inputs, *weights.values()]:
        map_value(_freeze, value)
    outputs = apply(binding.layer, arguments, named)
    for value, copy in zip([*inputs, *weights.values()], before, strict=True):
        _assert_same_bits(value, copy)
    try:
        inferred = infer(
            binding.layer,
            [_blind(spec_of(value)) for value in arguments],
            {name: _blind(spec_of(value)) for name, value in named.items()},
        )
    except DataDependent:
        pass
    else:
        assert list(inferred) == [spec_of(output) for output in outputs]
    return list(outputs)


def _is_constant(value: Any) -> bool:
    return all(map(_is_constant, value)) if isinstance(value, list) else not isinstance(value, np.ndarray)


def _freeze(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        leaf.flags.writeable = False
    return leaf


def _assert_same_bits(value: Any, copy: Any) -> None:
    if isinstance(value, list):
        for item, item_copy in zip(value, copy, strict=True):
            _assert_same_bits(item, item_copy)
    elif isinstance(value, np.ndarray):
        assert value.tobytes() == copy.tobytes()


def _blind(spec: Any) -> Any:
    return map_value(lambda leaf: leaf.like() if isinstance(leaf, TensorSpec) else leaf, spec)


def check(case: Case) -> None:
    """Runs a case by our layer and by PyTorch and compares everything."""
    got = run(case)
    expected = case.torch(*[to_torch(to_numpy(value)) for value in case.inputs])
    if case.outputs == 1:
        expected = [to_numpy(expected)]
    else:
        expected = to_numpy(expected)
    assert len(got) == len(expected), f"{len(got)} outputs, PyTorch gives {len(expected)}"
    for one, other in zip(got, expected, strict=True):
        assert_equal(one, other, case.tolerance)


def check_like_torch(case: Case) -> None:
    """As `check`, but where PyTorch refuses the inputs, we have to refuse them too."""
    inputs = [to_torch(to_numpy(value)) for value in case.inputs]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case.torch(*inputs)
    except (RuntimeError, IndexError, TypeError, ValueError) as refusal:
        try:
            run(case)
        except KuiperError:
            return
        raise AssertionError(f"PyTorch refuses: {refusal}") from None
    check(case)


def assert_equal(got: Any, expected: Any, tolerance: float | None = None) -> None:
    """Equal in form, shape, dtype and, within the tolerance, in value; NaN equals NaN, infinities need their sign."""
    if isinstance(expected, list):
        assert isinstance(got, list) and len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_equal(one, other, tolerance)
        return
    if not isinstance(expected, np.ndarray):
        assert type(got) is type(expected) and got == expected
        return
    assert isinstance(got, np.ndarray), f"expected an array, got {type(got)}"
    dtype = dtype_of(expected)
    assert dtype_of(got) is dtype, f"dtype {dtype_of(got)}, PyTorch gives {dtype}"
    assert got.shape == expected.shape, f"shape {got.shape}, PyTorch gives {expected.shape}"
    got, expected = widen(got), widen(expected)
    if dtype.kind in ("int", "bool"):
        np.testing.assert_array_equal(got, expected)
        return
    bound = TOLERANCE[dtype.name] if tolerance is None else tolerance
    parts = [(got.real, expected.real), (got.imag, expected.imag)] if dtype.kind == "complex" else [(got, expected)]
    finite = np.abs(expected[np.isfinite(expected)])
    largest = float(finite.max()) if finite.size else 1.0
    for one, other in parts:
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other), err_msg="NaN in other places")
        np.testing.assert_array_equal(
            np.isinf(one) * np.sign(one), np.isinf(other) * np.sign(other), err_msg="infinities"
        )
        with np.errstate(invalid="ignore"):
            error = np.abs(np.where(np.isfinite(other), one.astype(np.float64) - other, 0.0))
        worst = float(error.max()) if error.size else 0.0
        assert worst <= bound * largest, f"worst error {worst:.3g}, allowed {bound:.1g} x {largest:.3g}"


def random(
    *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0, low: float = -2.0, high: float = 2.0
) -> torch.Tensor:
    """A tensor of random values, the same on every run."""
    generator = torch.Generator().manual_seed(seed + sum((i + 1) * 7919 * d for i, d in enumerate(shape)))
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_complex:
        parts = torch.rand((*shape, 2), generator=generator, dtype=torch.float64) * (high - low) + low
        return torch.view_as_complex(parts).to(dtype)
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)
    low_int = 0 if dtype is torch.uint8 else int(low)
    return torch.randint(low_int, int(high) + 1, shape, generator=generator).to(dtype)


__all__ = [
    "ALL_DTYPES",
    "Case",
    "assert_equal",
    "check",
    "check_like_torch",
    "layers",
    "random",
    "run",
    "to_numpy",
    "to_torch",
    "Constant",
]
