"""How wrong a prediction is. `reduction` makes one number of the losses: ``mean``, ``sum``, or ``none``."""

from __future__ import annotations

from ...errors import InputError, did_you_mean
from .. import functional as F
from ..tensor import Tensor
from .module import Module

REDUCTIONS = ("mean", "sum", "none")


class _Loss(Module):
    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in REDUCTIONS:
            known = ", ".join(REDUCTIONS)
            raise InputError(
                f"{type(self).__name__}: reduction '{reduction}'; expected {known}{did_you_mean(reduction, REDUCTIONS)}"
            )
        self.reduction = reduction


class CrossEntropyLoss(_Loss):
    """-log softmax(input)[target]: classes from raw scores. (N, C, *) and (N, *) integers, or (N, C, *) probabilities -> ()

    `weight` (C,) weighs the classes, targets equal to `ignore_index` do not count, `label_smoothing` mixes the target with the
    uniform distribution. A mean is weighted by the classes' weights, as in PyTorch.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        if not 0 <= label_smoothing <= 1:
            raise InputError(f"CrossEntropyLoss: label_smoothing={label_smoothing}; expected a value between 0 and 1")
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_Loss):
    """-input[target]: classes from log-probabilities. (N, C, *) and (N, *) integers -> ()"""

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class MSELoss(_Loss):
    """(input - target)². (*) and (*) -> ()"""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class BCELoss(_Loss):
    """-(target log input + (1 - target) log(1 - input)) of probabilities. (*) and (*) -> ()"""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """BCELoss of sigmoid(input), without overflow. (*) and (*) -> (); `pos_weight` weighs the positive targets."""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, weight=self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )
