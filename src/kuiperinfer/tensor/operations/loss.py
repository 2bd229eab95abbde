"""Losses: how far predictions are from targets. `reduction` is "mean", "sum" or "none"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dtypes import Array, dtype_of, narrow, widen
from ...errors import DTypeError, InputError, ShapeError, did_you_mean
from ...expression import parse
from ...layers.softmax import log_softmax
from ..casting import is_real
from ..operation import ArrayOperation, Composite, Context, Elementwise, elementwise
from .layer import LayerOperation, apply_layer

if TYPE_CHECKING:
    from ..tensor import Tensor

REDUCTIONS = ("mean", "sum", "none")
LOG_SOFTMAX = LayerOperation("F.log_softmax")


def _expect_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        hint = did_you_mean(str(reduction), REDUCTIONS)
        raise InputError(f"reduction '{reduction}' is unknown; expected one of {', '.join(REDUCTIONS)}{hint}")


def reduce_loss(losses: Tensor, reduction: str) -> Any:
    """The losses as they are, their sum or their mean."""
    _expect_reduction(reduction)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


# ------------------------------------------------------------------------------------------- classes


def _weights_of(
    target: Array, weight: Array | None, classes: int, ignore_index: int, dtype: Any
) -> tuple[Array, Array]:
    """For each target its class, 0 where it is ignored, and its weight, 0 where it is ignored."""
    counted = target != ignore_index
    chosen = np.where(counted, target, 0)
    if chosen.size and (chosen.min() < 0 or chosen.max() >= classes):
        worst = chosen.min() if chosen.min() < 0 else chosen.max()
        raise InputError(f"target {worst} is out of range for {classes} classes")
    weights = counted.astype(dtype)
    return chosen, weights if weight is None else weights * weight[chosen]


def _nll(
    context: Context, logs: Array, target: Array, weight: Array | None, *, ignore_index: int, reduction: str
) -> Array:
    _expect_reduction(reduction)
    if target.dtype.kind not in "iu":
        raise DTypeError(f"target: expected integers that name classes, found dtype {dtype_of(target)}")
    axis = 0 if logs.ndim == 1 else 1
    if not logs.ndim or target.shape != logs.shape[:axis] + logs.shape[axis + 1 :]:
        raise ShapeError(f"input {logs.shape} and target {target.shape}: expected (N, C, *) and (N, *), or (C) and ()")
    dtype, logs, weight = dtype_of(logs), widen(logs), None if weight is None else widen(weight)
    chosen, weights = _weights_of(target, weight, logs.shape[axis], ignore_index, logs.dtype)
    losses = -np.take_along_axis(logs, np.expand_dims(chosen, axis), axis).squeeze(axis) * weights
    losses = np.where(weights == 0, logs.dtype.type(0), losses)
    total = weights.sum(dtype=np.float64)
    context.saved = axis, chosen, weights / logs.dtype.type(total or 1) if reduction == "mean" else weights
    if reduction == "none":
        return narrow(losses, dtype)
    result = losses.sum(dtype=np.float64)
    return narrow(np.asarray(result / total if reduction == "mean" else result, logs.dtype), dtype)


def _nll_gradient(context: Context, gradient: Array) -> Sequence[Array | None]:
    axis, chosen, shares = context.saved
    gradient = widen(gradient)
    result = np.zeros(context.arrays[0].shape, gradient.dtype)
    np.put_along_axis(result, np.expand_dims(chosen, axis), np.expand_dims(-shares * gradient, axis), axis)
    return [result, None, None]


NLL = ArrayOperation("nll_loss", _nll, _nll_gradient)


def _softmax_nll(context: Context, scores: Array, target: Array, weight: Array | None, **how: Any) -> Array:
    axis = 0 if scores.ndim == 1 else 1
    if scores.ndim > axis and scores.dtype in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            logs = log_softmax(scores, axis)
    else:
        _, (logs,) = apply_layer("F.log_softmax", [scores], dim=axis)
    loss = _nll(context, logs, target, weight, **how)
    context.saved = widen(logs), *context.saved
    return loss


def _softmax_nll_gradient(context: Context, gradient: Array) -> Sequence[Array | None]:
    """The share of each target in the loss, times softmax minus one for the target's class."""
    logs, axis, chosen, shares = context.saved
    shares, chosen = np.expand_dims(shares * widen(gradient), axis), np.expand_dims(chosen, axis)
    result = np.exp(logs) * shares
    np.put_along_axis(result, chosen, np.take_along_axis(result, chosen, axis) - shares, axis)
    return [result, None, None]


# In one piece, since every classifier's training ends in it.
_SOFTMAX_NLL = ArrayOperation("cross_entropy", _softmax_nll, _softmax_nll_gradient)


def _cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    *,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Any:
    if not hasattr(target, "grad_fn"):
        raise DTypeError(f"cross_entropy: target: expected a tensor, found {target!r}")
    if not is_real(label_smoothing):
        raise InputError(f"cross_entropy: label_smoothing={label_smoothing!r}; expected a number")
    axis = 0 if input.ndim == 1 else 1
    if target.dtype.kind != "float" and not label_smoothing:
        return _SOFTMAX_NLL.run(input, target, weight, ignore_index=ignore_index, reduction=reduction)
    logs = LOG_SOFTMAX.run(input, dim=axis)
    if target.dtype.kind == "float":
        return _against_probabilities(logs, target, weight, axis, reduction, label_smoothing)
    hard = NLL.run(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
    classes = input.shape[axis]
    _, weights = _weights_of(target.array, None if weight is None else widen(weight.array), classes, ignore_index, "f8")
    scales = np.ones(classes) if weight is None else widen(weight.array)
    counted = np.expand_dims(target.array != ignore_index, axis)
    from ..tensor import Tensor

    mask = counted * scales.reshape([-1 if dim == axis else 1 for dim in range(input.ndim)])
    soft = -(logs * Tensor(mask, input.dtype)).sum(axis)
    total = float(weights.sum())
    soft = soft.sum() / total if reduction == "mean" else reduce_loss(soft, reduction)
    return (1 - label_smoothing) * hard + (label_smoothing / classes) * soft


def _against_probabilities(
    logs: Tensor, target: Tensor, weight: Tensor | None, axis: int, reduction: str, label_smoothing: float
) -> Any:
    if target.shape != logs.shape:
        raise ShapeError(
            f"target: expected probabilities of shape {logs.shape}, that of the input, found {target.shape}"
        )
    _expect_reduction(reduction)
    classes = logs.shape[axis]
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    terms = logs * target
    if weight is not None:
        terms = terms * weight.reshape([-1 if dim == axis else 1 for dim in range(logs.ndim)])
    losses = -terms.sum(axis)
    if reduction != "mean":
        return reduce_loss(losses, reduction)
    return losses.sum() / max(losses.numel(), 1)


CROSS_ENTROPY = Composite("cross_entropy", _cross_entropy)

# ------------------------------------------------------------------------------------------- numbers


def _distance(function: str) -> Any:
    def loss(input: Tensor, target: Tensor, *, reduction: str) -> Any:
        return reduce_loss(elementwise(function, 1).run(elementwise("sub", 2).run(input, target)), reduction)

    return loss


MSE, L1 = Composite("mse_loss", _distance("square")), Composite("l1_loss", _distance("abs"))


# PyTorch takes logarithms of at least -100, and its gradient divides by at least 1e-12. @2 is the result, @3 its gradient.
_BCE = Elementwise(
    "binary_cross_entropy",
    parse("neg(add(mul(@1,maximum(log(@0),-100.0)),mul(sub(1,@1),maximum(log1p(neg(@0)),-100.0))))", internal=True),
    (
        parse("mul(@3,div(sub(@0,@1),maximum(mul(@0,sub(1,@0)),1e-12)))", internal=True),
        parse("mul(@3,sub(log1p(neg(@0)),log(@0)))"),
    ),
    2,
)


def _expect_probabilities(input: Tensor, target: Tensor) -> None:
    if input.shape != target.shape:
        raise ShapeError(f"input {input.shape} and target {target.shape}: expected one shape")


def _binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None, *, reduction: str) -> Any:
    _expect_probabilities(input, target)
    array = widen(input.array)
    if array.size and not (array.min() >= 0 and array.max() <= 1):
        raise InputError("binary_cross_entropy: expected an input between 0 and 1; for others take the one with logits")
    losses = _BCE.run(input, target)
    return reduce_loss(losses if weight is None else losses * weight, reduction)


def _with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, *, reduction: str
) -> Any:
    """(1 - t) x - (1 + (p - 1) t) log sigmoid(x), p being the weight of what is positive"""
    _expect_probabilities(input, target)
    log = elementwise("logsigmoid", 1).run(input)
    losses = (1 - target) * input - (log if pos_weight is None else (1 + (pos_weight - 1) * target) * log)
    return reduce_loss(losses if weight is None else losses * weight, reduction)


BCE = Composite("binary_cross_entropy", _binary_cross_entropy)
BCE_WITH_LOGITS = Composite("binary_cross_entropy_with_logits", _with_logits)
