"""Normalisation, whose running statistics learn while it is used for training."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError
from ..autograd import no_grad
from ..operation import Composite
from ..wrapping import wrap
from .layer import LayerOperation

if TYPE_CHECKING:
    from ..tensor import Tensor

_BATCH = LayerOperation("F.batch_norm")
LAYER_NORM = LayerOperation("F.layer_norm")


def _batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if not training:
        if running_mean is None or running_var is None:
            raise InputError("batch_norm: running statistics are needed unless it is called with training=True")
        return _BATCH.run(input, running_mean, running_var, weight, bias, eps=eps)
    result = _BATCH.run(input, None, None, weight, bias, training=True, eps=eps)
    if running_mean is not None and running_var is not None:
        axes = (0, *range(2, input.ndim))
        count = math.prod(input.shape[axis] for axis in axes)
        moments = input.array.mean(axes, np.float64), input.array.var(axes, np.float64, ddof=1 if count > 1 else 0)
        with no_grad():
            for running, moment in zip((running_mean, running_var), moments, strict=True):
                running.copy_((1 - momentum) * running + momentum * wrap(moment.astype(running.dtype.storage)))
    return result


BATCH_NORM = Composite("batch_norm", _batch_norm)
