"""Adam, and Adam with decoupled weight decay."""

from __future__ import annotations

import functools
import math
from typing import Any

from ...errors import InputError
from ..casting import is_real
from ..creation import zeros_like
from ..tensor import Tensor
from ..updates import Update
from .optimizer import Group, Optimizer, Parameters


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
        betas = options["betas"]
        if (
            not isinstance(betas, (tuple, list))
            or len(betas) != 2
            or not all(is_real(beta) and 0 <= beta < 1 for beta in betas)
        ):
            raise InputError(f"{type(self).__name__}: betas={betas!r}; expected two numbers in [0, 1)")

    def advance(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: Group) -> None:
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        if not state:
            state.update(step=0, exp_avg=zeros_like(parameter), exp_avg_sq=zeros_like(parameter))
        state["step"] += 1
        rate = lr / (1 - beta1 ** state["step"])
        unbiased = 1 / math.sqrt(1 - beta2 ** state["step"])
        update = _formula(bool(decay), self.decoupled, bool(group["maximize"]))
        numbers = (beta1, 1 - beta1, beta2, 1 - beta2, rate, unbiased, group["eps"], 1 - lr * decay, decay)
        update(state["exp_avg"], state["exp_avg_sq"], parameter, gradient, *map(float, numbers))


@functools.cache
def _formula(decays: bool, decoupled: bool, maximize: bool) -> Update:
    """The new averages, and the parameter by them."""

    def formula(
        mean: Any, square: Any, parameter: Any, gradient: Any,
        beta1: Any, rest1: Any, beta2: Any, rest2: Any, rate: Any, unbiased: Any, eps: Any, kept: Any, decay: Any,
    ) -> Any:  # fmt: skip
        if maximize:
            gradient = -gradient
        if decays and not decoupled:
            gradient = gradient + decay * parameter
        mean = beta1 * mean + rest1 * gradient
        square = beta2 * square + rest2 * gradient * gradient
        if decays and decoupled:
            parameter = parameter * kept
        return mean, square, parameter - rate * mean / (square.sqrt() * unbiased + eps)

    return Update(formula)


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
