"""How weights learn: optimisers and schedules of the learning rate, equal to PyTorch's."""

from .adam import Adam, AdamW
from .optimizer import Optimizer
from .schedules import CosineAnnealingLR, Schedule, StepLR
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "CosineAnnealingLR", "Optimizer", "Schedule", "StepLR"]
