"""Learning rates that change from epoch to epoch."""

from __future__ import annotations

import math

from ...errors import InputError
from ..casting import is_real
from .optimizer import Optimizer


class Schedule:
    """Base of all schedules: sets the `lr` of every group of an optimiser, now and after each `step()`, one an epoch."""

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise InputError(f"{type(self).__name__}: expected an optimiser, found {type(optimizer).__name__}")
        self.optimizer = optimizer
        self.base_lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self.last_epoch = 0
        self._set()

    def lr(self, base_lr: float, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        raise NotImplementedError

    def step(self) -> None:
        """On to the next epoch."""
        self.last_epoch += 1
        self._set()

    def get_last_lr(self) -> list[float]:
        """The learning rates as they are now, one a group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def _set(self) -> None:
        for group, base_lr in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = self.lr(base_lr, self.last_epoch)


class StepLR(Schedule):
    """Times `gamma` every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        if not isinstance(step_size, int) or step_size < 1:
            raise InputError(f"StepLR: step_size={step_size!r}; expected at least 1")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def lr(self, base_lr: float, epoch: int) -> float:
        return float(base_lr * self.gamma ** (epoch // self.step_size))


class CosineAnnealingLR(Schedule):
    """Down to `eta_min` in `T_max` epochs along half a cosine, then up again. Loshchilov and Hutter, arXiv:1608.03983."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        if not is_real(T_max) or T_max < 1:
            raise InputError(f"CosineAnnealingLR: T_max={T_max!r}; expected at least 1")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def lr(self, base_lr: float, epoch: int) -> float:
        return self.eta_min + (base_lr - self.eta_min) * (1 + math.cos(math.pi * epoch / self.T_max)) / 2
