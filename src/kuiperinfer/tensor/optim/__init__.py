"""How weights learn: optimisers and schedules of the learning rate, equal to PyTorch's."""

from . import lr_scheduler
from .adam import Adam, AdamW
from .lr_scheduler import CosineAnnealingLR, Schedule, StepLR
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "CosineAnnealingLR", "Optimizer", "Schedule", "StepLR", "lr_scheduler"]
