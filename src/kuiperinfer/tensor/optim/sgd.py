"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from ...errors import InputError
from ..tensor import Tensor
from .optimizer import Changes, Group, Optimizer, Parameters


class SGD(Optimizer):
    """parameter -= lr * velocity, where velocity = momentum * velocity + (1 - dampening) * gradient.

    The first velocity is the gradient itself. `nesterov` goes by gradient + momentum * velocity; `weight_decay` adds its
    multiple of the parameter to the gradient; `maximize` climbs.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        options = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**options, "nesterov": nesterov, "maximize": maximize})

    def check(self, options: Group) -> None:
        super().check(options)
        if options["momentum"] < 0:
            raise InputError(f"SGD: momentum={options['momentum']}; expected at least 0")
        if options["nesterov"] and (options["momentum"] == 0 or options["dampening"] != 0):
            raise InputError("SGD: nesterov needs a momentum and no dampening")

    def changes(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: Group) -> Changes:
        momentum, lr = group["momentum"], group["lr"]
        direction = -gradient if group["maximize"] else gradient
        if group["weight_decay"]:
            direction = direction + group["weight_decay"] * parameter
        if not momentum:
            return [(parameter, parameter - lr * direction)]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = direction.clone()
            return [(parameter, parameter - (lr * (1 + momentum) if group["nesterov"] else lr) * direction)]
        velocity = state["momentum_buffer"]
        taken = (1 - group["dampening"]) * direction if group["dampening"] else direction
        moved = momentum * velocity + taken
        step = direction + momentum * moved if group["nesterov"] else moved
        return [(velocity, moved), (parameter, parameter - lr * step)]
