"""Adam, and Adam with decoupled weight decay."""

from __future__ import annotations

import math
from typing import Any

from ...errors import InputError
from ..creation import zeros_like
from ..tensor import Tensor
from .optimizer import Changes, Group, Optimizer, Parameters


class Adam(Optimizer):
    """parameter -= lr * mean / (√square + eps), both moving averages of the gradient and of its square, without their bias.

    `weight_decay` adds its multiple of the parameter to the gradient. Kingma and Ba, arXiv:1412.6980.
    """

    decoupled = False

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, options)

    def check(self, options: Group) -> None:
        super().check(options)
        if not all(0 <= beta < 1 for beta in options["betas"]):
            raise InputError(f"{type(self).__name__}: betas={options['betas']}; expected both in [0, 1)")

    def changes(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: Group) -> Changes:
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        if not state:
            state.update(step=0, exp_avg=zeros_like(parameter), exp_avg_sq=zeros_like(parameter))
        state["step"] += 1
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        if group["maximize"]:
            gradient = -gradient
        if decay and not self.decoupled:
            gradient = gradient + decay * parameter
        new_mean = beta1 * mean + (1 - beta1) * gradient
        new_square = beta2 * square + (1 - beta2) * gradient * gradient
        rate = lr / (1 - beta1 ** state["step"])
        unbiased = 1 / math.sqrt(1 - beta2 ** state["step"])
        kept = parameter * (1 - lr * decay) if decay and self.decoupled else parameter
        moved = kept - rate * new_mean / (new_square.sqrt() * unbiased + group["eps"])
        return [(mean, new_mean), (square, new_square), (parameter, moved)]


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter by lr * weight_decay of itself, past the averages.

    Loshchilov and Hutter, arXiv:1711.05101.
    """

    decoupled = True

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, maximize=maximize)
