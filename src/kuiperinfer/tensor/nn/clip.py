"""Gradients kept within bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ...errors import InputError
from ..autograd import no_grad
from ..casting import is_real
from ..tensor import Tensor


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    several = [parameters] if isinstance(parameters, Tensor) else parameters
    if not isinstance(several, Iterable):
        raise InputError(f"expected the parameters of a module (net.parameters()) or tensors, found {parameters!r}")
    return [parameter.grad for parameter in several if parameter.grad is not None]


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> float:
    """Scales all gradients together so that their norm is at most `max_norm`; returns the norm they had.

    The norm is that of all gradients as one vector; `norm_type=inf` takes the largest magnitude. As in PyTorch, the factor is
    max_norm / (norm + 1e-6), where that is below 1.
    """
    if not is_real(max_norm):
        raise InputError(f"clip_grad_norm_: max_norm {max_norm!r}; expected a number")
    if not is_real(norm_type) or norm_type <= 0:
        raise InputError(f"clip_grad_norm_: norm_type {norm_type!r}; expected a positive number or inf")
    gradients = _gradients(parameters)
    norms = [float(np.linalg.norm(gradient.array.ravel(), norm_type)) for gradient in gradients]
    norm = float(np.linalg.norm(norms, norm_type)) if norms else 0.0
    factor = max_norm / (norm + 1e-6)
    if factor < 1 or math.isnan(factor):
        with no_grad():
            for gradient in gradients:
                gradient *= factor
    return norm


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Brings every element of the gradients into -clip_value … clip_value."""
    if not is_real(clip_value):
        raise InputError(f"clip_grad_value_: clip_value {clip_value!r}; expected a number")
    with no_grad():
        for gradient in _gradients(parameters):
            gradient[...] = gradient.clamp(-clip_value, clip_value)
