"""Functions of tensors under the names and with the arguments of `torch.nn.functional`."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..dtypes import Scalar
from ..errors import InputError
from ..expression import Literal, Operand, parse, substitute
from ..expression.tree import Call
from .casting import DTypeLike, as_dtype, is_real
from .operation import Composite, Elementwise, apply, elementwise
from .operations import loss, normalization
from .operations.layer import LayerOperation
from .operations.product import linear as linear

if TYPE_CHECKING:
    from .tensor import Tensor

Size: TypeAlias = "int | Sequence[int]"


def _sizes(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


# ------------------------------------------------------------------------------------------- activations

# `inplace` is accepted as in PyTorch, where it spares memory; here inputs always stay as they are.


def _activation(function: str, input: Tensor, *numbers: Scalar) -> Any:
    """A row of the table of activations; its numbers are part of the code."""
    return apply(elementwise(function, 1, numbers), input)


def relu(input: Tensor, inplace: bool = False) -> Any:
    """max(x, 0); NaN stays."""
    return _activation("relu", input)


def relu6(input: Tensor, inplace: bool = False) -> Any:
    """min(max(x, 0), 6); NaN stays."""
    return _activation("relu6", input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x where x > 0, else negative_slope * x"""
    return _activation("leaky_relu", input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where x > 0, else alpha * (exp(x) - 1)"""
    return _activation("elu", input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Any:
    """scale * elu(x, alpha), with the paper's constants"""
    return _activation("selu", input)


def gelu(input: Tensor, approximate: str = "none") -> Any:
    """x * Phi(x), Phi being the normal distribution function; its tanh form where `approximate` is "tanh"."""
    functions = {"none": "gelu", "tanh": "gelu_tanh"}
    if approximate not in functions:
        raise InputError(f"gelu: approximate='{approximate}'; expected one of {', '.join(functions)}")
    return _activation(functions[approximate], input)


def silu(input: Tensor, inplace: bool = False) -> Any:
    """x * sigmoid(x)"""
    return _activation("silu", input)


def mish(input: Tensor, inplace: bool = False) -> Any:
    """x * tanh(log(1 + exp(x)))"""
    return _activation("mish", input)


def sigmoid(input: Tensor) -> Any:
    """1 / (1 + exp(-x))"""
    return _activation("sigmoid", input)


def logsigmoid(input: Tensor) -> Any:
    """log(sigmoid(x))"""
    return _activation("logsigmoid", input)


def tanh(input: Tensor) -> Any:
    """tanh(x)"""
    return _activation("tanh", input)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x > threshold"""
    return _activation("softplus", input, beta, threshold)


def softsign(input: Tensor) -> Any:
    """x / (1 + |x|)"""
    return _activation("softsign", input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Any:
    """min(max(x + 3, 0), 6) / 6"""
    return _activation("hardsigmoid", input)


def hardswish(input: Tensor, inplace: bool = False) -> Any:
    """x * hardsigmoid(x)"""
    return _activation("hardswish", input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """min(max(x, min_val), max_val); NaN stays."""
    return apply(_hardtanh(min_val, max_val), input)


@functools.lru_cache(maxsize=64)
def _hardtanh(low: float, high: float) -> Elementwise:
    """`clamp`, but the gradient on the bounds themselves is zero, and that of NaN is not: PyTorch's hardtanh."""
    tree = Call("clamp", (Operand(0), Literal(low), Literal(high)))
    inside = parse("where(or(le(@0,@1),ge(@0,@2)),0,@3)", internal=True)
    rule = substitute(inside, [Operand(0), Literal(low), Literal(high), Operand(2)])
    operation = Elementwise("clamp", tree, (rule,), 1)
    operation.numbers = (low, high)
    return operation


_SOFTMAX = LayerOperation("F.softmax")


def softmax(input: Tensor, dim: int | None = None, dtype: DTypeLike | None = None) -> Any:
    """exp(x) / sum(exp(x)) along `dim`."""
    return apply(_SOFTMAX, input, dim=dim, dtype=None if dtype is None else as_dtype(dtype))


def log_softmax(input: Tensor, dim: int | None = None, dtype: DTypeLike | None = None) -> Any:
    """log(softmax(x)) along `dim`."""
    return apply(loss.LOG_SOFTMAX, input, dim=dim, dtype=None if dtype is None else as_dtype(dtype))


# ------------------------------------------------------------------------------------------- convolution and windows

_CONVOLUTIONS = {ndim: LayerOperation(f"F.conv{ndim}d") for ndim in (1, 2)}
_UNFOLD, _FOLD = LayerOperation("F.unfold"), LayerOperation("F.fold")


def _convolve(ndim: int, input: Tensor, weight: Tensor, bias: Any, *how: Any) -> Any:
    stride, padding, dilation, groups = how
    return apply(
        _CONVOLUTIONS[ndim],
        input,
        weight,
        bias,
        stride=_sizes(stride),
        padding=padding if isinstance(padding, str) else _sizes(padding),
        dilation=_sizes(dilation),
        groups=groups,
    )


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation. (N, C, L), (O, C / groups, K), (O) -> (N, O, L')"""
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation. (N, C, H, W), (O, C / groups, KH, KW), (O) -> (N, O, H', W')

    `padding` is a number, one for each dimension, "same" or "valid".
    """
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups)


def unfold(input: Tensor, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1) -> Any:
    """Each window of the padded image as a column. (N, C, H, W) -> (N, C * KH * KW, L)"""
    how = {"dilation": _sizes(dilation), "padding": _sizes(padding), "stride": _sizes(stride)}
    return apply(_UNFOLD, input, kernel_size=_sizes(kernel_size), **how)


def fold(
    input: Tensor, output_size: Size, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
) -> Any:
    """The image whose windows are these columns, added up where they overlap. (N, C * KH * KW, L) -> (N, C, H, W)"""
    how = {"dilation": _sizes(dilation), "padding": _sizes(padding), "stride": _sizes(stride)}
    return apply(_FOLD, input, output_size=_sizes(output_size), kernel_size=_sizes(kernel_size), **how)


def _img2col(input: Tensor, **how: Any) -> Any:
    columns = _UNFOLD.run(input, **how)
    samples, elements, windows = columns.shape
    return columns.permute(2, 0, 1).reshape(windows * samples, elements)


_IMG2COL = Composite("img2col", _img2col)


def img2col(input: Tensor, kernel_size: Size, stride: Size = 1, padding: Size = 0) -> Any:
    """Each window of the padded image as a row. (N, C, H, W) -> (H' * W' * N, C * KH * KW)

    Rows are ordered by window row, window column and sample: a convolution is this times the transposed weight.
    """
    return apply(_IMG2COL, input, kernel_size=_sizes(kernel_size), stride=_sizes(stride), padding=_sizes(padding))


_MAX_POOL, _MAX_POOL_WITH_INDICES = LayerOperation("F.max_pool2d"), LayerOperation("F.max_pool2d", output_count=2)
_AVG_POOL, _ADAPTIVE_AVG_POOL = LayerOperation("F.avg_pool2d"), LayerOperation("F.adaptive_avg_pool2d")


def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window; padding is never taken. (N, C, H, W) -> (N, C, H', W')

    With `return_indices` the pair of these and their positions in the flattened plane.
    """
    how = {
        "kernel_size": _sizes(kernel_size),
        "stride": _sizes(kernel_size if stride is None else stride),
        "padding": _sizes(padding),
        "dilation": _sizes(dilation),
        "ceil_mode": ceil_mode,
    }
    if return_indices:
        return apply(_MAX_POOL_WITH_INDICES, input, return_indices=True, **how)
    return apply(_MAX_POOL, input, **how)


def avg_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The average of each window. (N, C, H, W) -> (N, C, H', W')"""
    return apply(
        _AVG_POOL,
        input,
        kernel_size=_sizes(kernel_size),
        stride=_sizes(kernel_size if stride is None else stride),
        padding=_sizes(padding),
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override,
    )


def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None]) -> Any:
    """Averages of as many windows as asked for; None keeps a size. (N, C, H, W) -> (N, C, *output_size)"""
    sizes: Any = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * 2
    return apply(_ADAPTIVE_AVG_POOL, input, output_size=tuple(size or 0 for size in sizes))


_PAD = LayerOperation("F.pad")


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """More elements before and after the last dimensions, the last one first; negative amounts take elements away."""
    return apply(_PAD, input, pad=_sizes(pad), mode=mode, value=value)


# ------------------------------------------------------------------------------------------- shapes and tables


def _flatten(input: Tensor, *, start_dim: int, end_dim: int) -> Any:
    if not input.ndim:
        return input.reshape(1)
    start, end = input.shape.dimension(start_dim), input.shape.dimension(end_dim)
    if start > end:
        raise InputError(f"flatten: start_dim={start_dim} comes after end_dim={end_dim} in shape {input.shape}")
    shape = input.shape
    return input.reshape((*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


_FLATTEN = Composite("flatten", _flatten)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dimensions from `start_dim` to `end_dim` as one; a view where strides allow."""
    return apply(_FLATTEN, input, start_dim=start_dim, end_dim=end_dim)


_EMBEDDING, _ONE_HOT = LayerOperation("F.embedding"), LayerOperation("aten::one_hot")


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Any:
    """The rows of a table that the indices name; `padding_idx` learns nothing. (*), (V, D) -> (*, D)"""
    return apply(_EMBEDDING, input, weight, padding_idx=padding_idx)


def one_hot(input: Tensor, num_classes: int = -1) -> Any:
    """For every class number a row of zeros with a one in its place. (*) -> (*, C)"""
    return apply(_ONE_HOT, input, num_classes=num_classes)


# ------------------------------------------------------------------------------------------- normalisation and dropout


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias, one of each a channel. (N, C, *) -> (N, C, *)

    For training the moments are those of the batch, and the running ones, where given, move towards them by `momentum`.
    """
    how: dict[str, Any] = {"training": training, "momentum": momentum, "eps": eps}
    return apply(normalization.BATCH_NORM, input, running_mean, running_var, weight, bias, **how)


def layer_norm(
    input: Tensor,
    normalized_shape: Size,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias, moments over the last dimensions. (*, *S) -> (*, *S)"""
    return apply(normalization.LAYER_NORM, input, weight, bias, normalized_shape=_sizes(normalized_shape), eps=eps)


def _dropout(input: Tensor, *, p: float, training: bool) -> Any:
    if not training or p == 0:
        return input
    from .random import rand

    kept = rand(*input.shape, dtype=input.dtype) >= p
    return input * (kept.to(input.dtype) * (0.0 if p == 1 else 1 / (1 - p)))


_DROPOUT = Composite("dropout", _dropout)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """For training, elements are zeroed with probability `p` and the others scaled by 1 / (1 - p)."""
    if not is_real(p) or not 0 <= p <= 1:
        raise InputError(f"dropout: p={p!r}; expected a probability between 0 and 1")
    return apply(_DROPOUT, input, p=p, training=training)


# ------------------------------------------------------------------------------------------- losses


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """-log softmax(input)[target]. (N, C, *) and classes (N, *), or probabilities (N, C, *) -> ()"""
    how: dict[str, Any] = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing}
    return apply(loss.CROSS_ENTROPY, input, target, weight, **how)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Any:
    """-input[target], the input being log-probabilities. (N, C, *) and (N, *) -> ()"""
    return apply(loss.NLL, input, target, weight, ignore_index=ignore_index, reduction=reduction)


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Any:
    """(input - target) ** 2"""
    return apply(loss.MSE, input, target, reduction=reduction)


def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Any:
    """|input - target|"""
    return apply(loss.L1, input, target, reduction=reduction)


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Any:
    """-(target * log(input) + (1 - target) * log(1 - input)); logarithms are at least -100."""
    return apply(loss.BCE, input, target, weight, reduction=reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Any:
    """binary_cross_entropy(sigmoid(input), target), without loss; `pos_weight` multiplies the first term."""
    return apply(loss.BCE_WITH_LOGITS, input, target, weight, pos_weight, reduction=reduction)
