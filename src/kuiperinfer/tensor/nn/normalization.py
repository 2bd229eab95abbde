"""Normalisation: of channels over the batch, and of the last dimensions."""

from __future__ import annotations

from ...dtypes import i64
from ...errors import ShapeError
from .. import functional as F
from .. import init
from ..creation import ones, zeros
from ..tensor import Tensor
from .module import Module
from .parameter import Parameter


class _BatchNorm(Module):
    """(input - mean) / √(variance + eps) * weight + bias, for each channel.

    In training, mean and variance are those of the batch, and the running ones move towards them by `momentum` (with None, they
    are the plain average of all batches); afterwards the running ones are used. Without `track_running_stats` it is always
    those of the batch.
    """

    ranks: tuple[int, ...]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.register_parameter("weight", Parameter(ones(num_features)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_features)) if affine and bias else None)
        self.register_buffer("running_mean", zeros(num_features) if track_running_stats else None)
        self.register_buffer("running_var", ones(num_features) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", zeros((), dtype=i64) if track_running_stats else None)

    def reset_parameters(self) -> None:
        """Everything as it was in the beginning."""
        for tensor, value in ((self.weight, 1.0), (self.bias, 0.0), (self.running_mean, 0.0), (self.running_var, 1.0)):
            if tensor is not None:
                init.constant_(tensor, value)
        if self.num_batches_tracked is not None:
            init.zeros_(self.num_batches_tracked)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self.ranks:
            expected = " or ".join(map(str, self.ranks))
            raise ShapeError(f"{type(self).__name__}: expected {expected} dimensions, found shape {tuple(input.shape)}")
        momentum = self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked += 1
            if momentum is None:
                momentum = 1 / int(self.num_batches_tracked.item())
        of_batch = self.training or self.running_mean is None
        return F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, of_batch, momentum or 0.0, self.eps
        )

    def extra_repr(self) -> str:
        what = f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}"
        return f"{what}, bias={self.bias is not None}, track_running_stats={self.track_running_stats}"


class BatchNorm1d(_BatchNorm):
    """Batch norm. (N, C) or (N, C, L) -> the same"""

    __doc__ = f"{__doc__}\n\n    {_BatchNorm.__doc__}"
    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of pictures. (N, C, H, W) -> the same"""

    __doc__ = f"{__doc__}\n\n    {_BatchNorm.__doc__}"
    ranks = (4,)


class LayerNorm(Module):
    """(input - mean) / √(variance + eps) * weight + bias over the last dimensions. (*, *normalized_shape) -> the same"""

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...] | list[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", Parameter(ones(*self.normalized_shape)) if elementwise_affine else None)
        has_bias = elementwise_affine and bias
        self.register_parameter("bias", Parameter(zeros(*self.normalized_shape)) if has_bias else None)

    def reset_parameters(self) -> None:
        """Everything as it was in the beginning."""
        for tensor, value in ((self.weight, 1.0), (self.bias, 0.0)):
            if tensor is not None:
                init.constant_(tensor, value)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"
