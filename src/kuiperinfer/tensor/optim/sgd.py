"""Stochastic gradient descent."""

from __future__ import annotations

import functools
from typing import Any

from ...errors import InputError
from ..creation import zeros_like
from ..tensor import Tensor
from ..updates import Update
from .optimizer import Group, Optimizer, Parameters


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

    def advance(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: Group) -> None:
        decay, momentum, taken = group["weight_decay"], group["momentum"], 1 - group["dampening"]
        update = _formula(bool(decay), bool(momentum), group["nesterov"], bool(group["maximize"]))
        numbers = (group["lr"], decay, momentum, taken)
        if not momentum:
            update(parameter, gradient, *map(float, numbers))
            return
        if "momentum_buffer" not in state:  # the first velocity is not dampened
            state["momentum_buffer"] = zeros_like(parameter)
            numbers = (group["lr"], decay, momentum, 1)
        update(state["momentum_buffer"], parameter, gradient, *map(float, numbers))


@functools.cache
def _formula(decays: bool, has_momentum: bool, nesterov: bool, maximize: bool) -> Update:
    """The new velocity, where there is one, and the parameter by it."""

    def direction(parameter: Any, gradient: Any, decay: Any) -> Any:
        upward = -gradient if maximize else gradient
        return upward + decay * parameter if decays else upward

    def plain(parameter: Any, gradient: Any, rate: Any, decay: Any, momentum: Any, taken: Any) -> Any:
        return parameter - rate * direction(parameter, gradient, decay)

    def accelerated(
        velocity: Any, parameter: Any, gradient: Any, rate: Any, decay: Any, momentum: Any, taken: Any
    ) -> Any:
        now = direction(parameter, gradient, decay)
        velocity = momentum * velocity + taken * now
        return velocity, parameter - rate * (now + momentum * velocity if nesterov else velocity)

    return Update(accelerated if has_momentum else plain)
